-- The call of timers_1: see schema/functions/timers_1.sql.
SELECT timers_1($1, $2)
