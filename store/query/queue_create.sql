-- The call of queue_create_1.
SELECT id, name, topic_id, fixed, partitions, dedup_window_seconds, window_from, max_message_bytes, retention_ms, created_at,
       version, deleted_at IS NOT NULL
  FROM queue_create_1($1, $2, $3, $4, $5, $6, $7)
