-- The call of ack_1.
SELECT status, next_offset, lease_live FROM ack_1($1, $2, $3, $4, $5, $6)
