-- The queues changed, deleted included, after catalog version $1. Index: queues_version.
-- A deleted queue is listed until it is swept, and its name may be in use again.
SELECT id, name, topic_id, fixed, partitions, dedup_window_seconds, window_from, max_message_bytes, retention_ms, created_at,
       version, deleted_at IS NOT NULL
  FROM queues WHERE version > $1 ORDER BY version, id
