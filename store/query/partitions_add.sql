-- The call of partitions_add_1.
SELECT to_jsonb(a.q), a.added FROM partitions_add_1($1, $2) a
