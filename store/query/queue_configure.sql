-- The call of queue_configure_1: the queue after, before, and whether it is new.
SELECT (c.q).id, (c.q).name, (c.q).topic_id, (c.q).fixed, (c.q).partitions, (c.q).dedup_window_seconds, (c.q).window_from,
       (c.q).max_message_bytes, (c.q).retention_ms, (c.q).created_at, (c.q).version, (c.q).deleted_at IS NOT NULL,
       (c.before).id, (c.before).name, (c.before).topic_id, (c.before).fixed, (c.before).partitions, (c.before).dedup_window_seconds, (c.before).window_from,
       (c.before).max_message_bytes, (c.before).retention_ms, (c.before).created_at, (c.before).version, (c.before).deleted_at IS NOT NULL,
       c.created
  FROM queue_configure_1($1, $2, $3, $4, $5, $6, $7, $8) c
