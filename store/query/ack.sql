-- The call of ack_1.
SELECT status, next_offset, lease_live, wait_ms, dead FROM ack_1($1, $2, $3, $4, $5, $6, $7, $8, $9)
