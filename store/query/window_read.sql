-- The sidecar of partition $1 above offset $3, oldest row first, back to $2
-- seconds before now on the database's clock, and with each row where the log ends and what the
-- time is: all of one snapshot. One row without offsets where there is none.
-- Index: log_txns_pkey.
SELECT n.end_offset, n.at, t.base_offset, t.end_offset, t.created_at, t.hashes
  FROM (SELECT COALESCE((SELECT x.end_offset FROM log_txns x WHERE x.partition_id = $1
                          ORDER BY x.end_offset DESC LIMIT 1), -1) AS end_offset,
               statement_timestamp() AS at) n
  LEFT JOIN log_txns t ON t.partition_id = $1 AND t.end_offset > $3 AND t.created_at >= n.at - make_interval(secs => $2)
 ORDER BY t.end_offset
