-- The call of calls_purge_1.
SELECT deleted, upto FROM calls_purge_1($1, $2, $3)
