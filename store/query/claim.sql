-- The call of claim_1.
SELECT partition_id, next_offset, lease_end, lease_until, acked, end_offset, base_offset, created_at,
       max_timestamp, leader_epoch, records, size, header, data
  FROM claim_1($1, $2, $3, $4, $5, $6, $7, $8)
