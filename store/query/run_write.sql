-- The call of run_write_1.
SELECT run_write_1($1, $2, $3, $4, $5, $6, $7, $8, $9)
