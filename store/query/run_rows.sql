-- The hashes of partition $1's sidecar rows that end above offset $2, up to $3.
-- Index: log_txns_pkey.
SELECT base_offset, hashes FROM log_txns WHERE partition_id = $1 AND end_offset > $2 AND end_offset <= $3 ORDER BY end_offset
