-- Forgets that function $1 was created; it was dropped in the same transaction.
DELETE FROM schema_files WHERE name = $1
