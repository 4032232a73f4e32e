-- Partitions that have something to forget, from $1 (exclusive) on by id, at
-- most $2 of them looked at: where the log may start (null: nothing expired;
-- at most $3 segments ahead by time), and whether the sidecar has rows past use
-- besides its newest, which stays. Of a deleted queue nothing is due, the sweeper
-- takes all; but its partitions count among those looked at.
-- Of a partition in which nothing is due one row of the log is read and two of the
-- sidecar, however long it is: created_at rises with the offset, so where the
-- oldest segment has not expired none has. Some 20 more where a size is exceeded.
-- $4: the least age of the sidecar in seconds. Index: log_segments_pkey, log_txns_pkey, cursors_pkey.
-- By consumption, the segments go that all retention_groups have completed; one
-- that has no position keeps all.
SELECT p.id, GREATEST(s.next_start, b.next_start, d.next_start), t.old
  FROM (SELECT l.id, l.queue_id, l.start_offset FROM log_partitions l WHERE l.id > $1 ORDER BY l.id LIMIT $2) p
  LEFT JOIN LATERAL (
        SELECT x.*, CASE WHEN x.cleanup_delete AND x.retention_ms >= 0
                         -- A hundred years at most: timestamps end somewhere, and one queue must not stop all.
                         THEN clock_timestamp() - make_interval(secs => LEAST(x.retention_ms, 3155760000000) / 1000.0) END AS expired
          FROM queues x WHERE x.id = p.queue_id LIMIT 1
       ) q ON q.deleted_at IS NULL
  LEFT JOIN LATERAL (SELECT x.end_offset, x.created_at FROM log_segments x WHERE x.partition_id = p.id
                      ORDER BY x.end_offset LIMIT 1) f ON q.id IS NOT NULL
  LEFT JOIN LATERAL (
        SELECT max(x.end_offset) + 1 AS next_start
          FROM (SELECT g.end_offset, g.created_at FROM log_segments g
                 WHERE g.partition_id = p.id
                   AND (f.end_offset < p.start_offset OR f.created_at < q.expired)
                 ORDER BY g.end_offset LIMIT $3) x
         WHERE x.end_offset < p.start_offset -- left by a round that was cut off
            OR x.created_at < q.expired
       ) s ON q.id IS NOT NULL
  LEFT JOIN LATERAL (
        -- In the list, not in ON: what is joined is computed first and filtered then.
        SELECT CASE WHEN q.cleanup_delete AND q.retention_bytes >= 0 THEN retained_from_1(p.id, q.retention_bytes) END AS next_start
       ) b ON q.id IS NOT NULL
  LEFT JOIN LATERAL (
        SELECT x.end_offset + 1 AS next_start
          FROM (SELECT min(COALESCE(c.next_offset, 0)) AS position
                  FROM unnest(q.retention_groups) r(name)
                  LEFT JOIN LATERAL (SELECT y.next_offset FROM cursors y
                                      WHERE y.partition_id = p.id AND y.group_name = r.name LIMIT 1) c ON true) m
         CROSS JOIN LATERAL (SELECT g.end_offset FROM log_segments g
                              WHERE g.partition_id = p.id AND g.end_offset < m.position
                              ORDER BY g.end_offset DESC LIMIT 1) x
       ) d ON q.retention_groups <> '{}'
  LEFT JOIN LATERAL (
        SELECT count(*) = 2 AND min(x.created_at) < clock_timestamp()
               - make_interval(secs => GREATEST(q.dedup_window_seconds, q.completed_retention_seconds, $4)) AS old
          FROM (SELECT o.created_at FROM log_txns o WHERE o.partition_id = p.id ORDER BY o.end_offset LIMIT 2) x
       ) t ON q.id IS NOT NULL
 ORDER BY p.id
