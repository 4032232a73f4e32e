-- The call of deleted_sweep_1.
SELECT deleted_sweep_1($1, $2)
