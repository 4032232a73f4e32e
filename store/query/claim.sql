-- The call of claim_1.
SELECT partition_id, status, until_ms, next_offset, lease_end, acked, end_offset, base_offset, created_at,
       max_timestamp, leader_epoch, records, size, header, data
  FROM claim_1($1, $2, $3, $4, $5, $6, $7)
