-- The call of queue_create_1.
SELECT to_jsonb(q) FROM queue_create_1($1, $2, $3, $4) q
