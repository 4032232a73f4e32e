-- The call of partitions_ensure_1.
SELECT to_jsonb(q) FROM partitions_ensure_1($1, $2) q
