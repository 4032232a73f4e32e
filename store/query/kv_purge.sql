-- The call of kv_purge_1: how many went, and where to go on.
SELECT deleted, upto FROM kv_purge_1($1, $2)
