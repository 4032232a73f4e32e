-- The call of txns_purge_1.
SELECT deleted, more FROM txns_purge_1($1, $2, $3, $4, $5)
