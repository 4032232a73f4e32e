-- The call of partition_ensure_1: the queue, the partition (its id 0 when there is none) and its marks.
SELECT (e.q).id, (e.q).name, (e.q).topic_id, (e.q).fixed, (e.q).partitions, (e.q).dedup_window_seconds, (e.q).window_from,
       (e.q).max_message_bytes, (e.q).retention_ms, (e.q).created_at, (e.q).version, (e.q).deleted_at IS NOT NULL,
       COALESCE((e.p).id, 0), COALESCE((e.p).number, 0), COALESCE((e.p).name, ''), COALESCE((e.p).start_offset, 0),
       COALESCE((SELECT t.end_offset + 1 FROM log_txns t WHERE t.partition_id = (e.p).id
                  ORDER BY t.end_offset DESC LIMIT 1), 0)
  FROM partition_ensure_1($1, $2, $3, $4, $5) e
