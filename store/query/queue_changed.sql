-- The queues changed, deleted included, after catalog version $1, with that version
-- now and the highest one of a deleted queue that was swept: a row without a queue
-- where there is none. Index: queues_version.
-- A deleted queue is listed until it is swept, and its name may be in use again.
SELECT c.catalog_version, c.swept_version, to_jsonb(q)
  FROM cluster c
  LEFT JOIN LATERAL (SELECT x.* FROM queues x WHERE x.version > $1) q ON true
 ORDER BY q.version, q.id
