-- The segment that ends at offset $2 of partition $1 and holds dead letters. Index: dead_segments_pkey.
SELECT d.end_offset, d.base_offset, d.created_at, d.max_timestamp, d.leader_epoch, d.records, d.size, d.header, d.data
  FROM dead_segments d WHERE d.partition_id = $1 AND d.end_offset = $2
