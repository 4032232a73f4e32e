-- The queues changed, deleted included, after catalog version $1. Index: queues_version.
-- A deleted queue is listed until it is swept, and its name may be in use again.
SELECT to_jsonb(q) FROM queues q WHERE q.version > $1 ORDER BY q.version, q.id
