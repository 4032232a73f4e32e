-- What waits in the partitions of a span of a queue: what the group that is furthest behind
-- owes, of those there and those named, all that is stored where there is none (group_lag_1).
SELECT partition_id, number, partition_name,
       COALESCE(max(pending) FILTER (WHERE group_name IS NOT NULL), max(pending))
  FROM group_lag_1(ARRAY[$1::bigint], ARRAY[$2::integer], ARRAY[$3::integer], true, array_fill(1, ARRAY[cardinality($4::text[])]), $4)
 GROUP BY partition_id, number, partition_name
 ORDER BY number
