-- The call of partition_ensure_1: the queue, the partition (its id 0 when there is none) and its marks.
SELECT to_jsonb(e.q), COALESCE((e.p).id, 0), COALESCE((e.p).number, 0), COALESCE((e.p).name, ''), COALESCE((e.p).start_offset, 0),
       COALESCE((SELECT t.end_offset + 1 FROM log_txns t WHERE t.partition_id = (e.p).id
                  ORDER BY t.end_offset DESC LIMIT 1), 0)
  FROM partition_ensure_1($1, $2) e
