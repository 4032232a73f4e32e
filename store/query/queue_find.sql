-- The queues with the names $1 or the topic ids $2. Indexes: queues_name, queues_topic_id_key.
SELECT id, name, topic_id, fixed, partitions, dedup_window_seconds, window_from, max_message_bytes, retention_ms, created_at,
       version, deleted_at IS NOT NULL
  FROM queues WHERE name = ANY ($1) AND deleted_at IS NULL
UNION ALL
SELECT id, name, topic_id, fixed, partitions, dedup_window_seconds, window_from, max_message_bytes, retention_ms, created_at,
       version, deleted_at IS NOT NULL
  FROM queues WHERE topic_id = ANY ($2) AND deleted_at IS NULL
