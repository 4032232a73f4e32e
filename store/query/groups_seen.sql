-- The call of groups_seen_1.
SELECT groups_seen_1($1, $2, $3)
