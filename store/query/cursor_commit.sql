-- The call of cursors_commit_1: the partitions stored, ascending.
SELECT p FROM cursors_commit_1($1, $2, $3, $4, $5, $6) p ORDER BY p
