-- Which migrations and functions were applied, with the checksum of their text.
-- used_at is when a binary last asked for it.
CREATE TABLE IF NOT EXISTS schema_files (
    name     text PRIMARY KEY,
    checksum text NOT NULL,
    used_at  timestamptz NOT NULL DEFAULT clock_timestamp()
)
