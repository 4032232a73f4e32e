-- The call of leases_purge_1.
SELECT deleted, upto FROM leases_purge_1($1, $2, $3)
