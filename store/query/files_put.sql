-- Notes that file $1 with checksum $2 is applied, and asked for now.
INSERT INTO schema_files AS f (name, checksum) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET checksum = EXCLUDED.checksum, used_at = clock_timestamp()
