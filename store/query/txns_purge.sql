-- The call of txns_purge_1.
SELECT txns_purge_1($1, $2, $3, $4)
