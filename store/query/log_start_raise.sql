-- The call of log_start_raise_1.
SELECT log_start_raise_1($1, $2)
