-- The call of queue_delete_1.
SELECT id, name, topic_id, fixed, partitions, dedup_window_seconds, window_from, max_message_bytes, retention_ms, created_at,
       version, deleted_at IS NOT NULL
  FROM queue_delete_1($1)
