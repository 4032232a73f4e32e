-- Every queue, by name. Index: queues_name.
SELECT to_jsonb(q) FROM queues q WHERE q.deleted_at IS NULL ORDER BY q.name
