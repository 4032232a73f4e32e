-- The call of timer_delay_1.
SELECT timer_delay_1($1, $2, $3, $4, $5, $6)
