-- Dead letters of queue $1, oldest first, from the $9th on, at most $8, with how many
-- there are: of group $2, partition $3, with the ids $4, at offset $5, that died from $6 to
-- before $7; null is any. Indexes: dead_letters_queue, log_partitions_pkey.
SELECT l.id, l.partition_id, p.name, l.group_name, l.record_offset, COALESCE(l.segment_end, -1), l.failures, l.reason, l.died_at,
       count(*) OVER ()
  FROM dead_letters l
 CROSS JOIN LATERAL (SELECT x.name FROM log_partitions x WHERE x.id = l.partition_id LIMIT 1) p
 WHERE l.queue_id = $1
   AND ($2::text IS NULL OR l.group_name = $2)
   AND ($3::bigint IS NULL OR l.partition_id = $3)
   AND ($4::bigint[] IS NULL OR l.id = ANY ($4))
   AND ($5::bigint IS NULL OR l.record_offset = $5)
   AND ($6::timestamptz IS NULL OR l.died_at >= $6)
   AND ($7::timestamptz IS NULL OR l.died_at < $7)
 ORDER BY l.id LIMIT $8 OFFSET $9
