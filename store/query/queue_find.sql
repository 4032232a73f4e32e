-- The queues with the names $1 or the topic ids $2. Indexes: queues_name, queues_topic_id_key.
SELECT to_jsonb(q) FROM queues q WHERE q.name = ANY ($1) AND q.deleted_at IS NULL
UNION ALL
SELECT to_jsonb(q) FROM queues q WHERE q.topic_id = ANY ($2) AND q.deleted_at IS NULL
