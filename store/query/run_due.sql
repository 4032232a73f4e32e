-- The oldest rows of partition $1's sidecar above offset $2 that have $3 hashes
-- together: their offsets, and how many; all rows with hashes, if they have fewer. The
-- size of an array says how many elements it has, without reading it. A row looked at
-- has one at least, so $3 of them are enough, however long the log is above $2.
-- Index: log_txns_pkey.
SELECT min(x.base_offset), max(x.end_offset), max(x.total)
  FROM (SELECT t.base_offset, t.end_offset, t.n, sum(t.n) OVER (ORDER BY t.end_offset) AS total
          FROM (SELECT l.base_offset, l.end_offset, (pg_column_size(l.hashes) - 13) / 16 AS n
                  FROM log_txns l
                 WHERE l.partition_id = $1 AND l.end_offset > $2 AND pg_column_size(l.hashes) >= 29
                 ORDER BY l.end_offset LIMIT $3) t) x
 WHERE x.total - x.n < $3
