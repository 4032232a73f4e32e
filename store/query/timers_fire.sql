-- The call of timers_fire_1, segments in order: see schema/functions/timers_fire_1.sql.
SELECT status, base_offset, end_offset, next_offset, log_start, window_seconds, created_at
  FROM timers_fire_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
