-- The call of queue_delete_1.
SELECT to_jsonb(q) FROM queue_delete_1($1) q
