-- The call of cursors_commit_1: the partitions stored, ascending, or −1.
SELECT p FROM cursors_commit_1($1, $2, $3, $4, $5, $6, $7, $8, $9) p ORDER BY p
