-- The call of run_build_1.
SELECT run_build_1($1, $2, $3, $4)
