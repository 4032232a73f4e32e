-- Every queue, by name. Index: queues_name.
SELECT id, name, topic_id, fixed, partitions, dedup_window_seconds, window_from, max_message_bytes, retention_ms, created_at,
       version, deleted_at IS NOT NULL
  FROM queues WHERE deleted_at IS NULL ORDER BY name
