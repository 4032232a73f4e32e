-- The installed functions that can go: not among those shipped ($1), not
-- registered by a broker that was alive in the last hour, and not asked for by
-- a migration in that time. The hour covers a broker that is paused or cut off,
-- and one between its migration and its registration.
SELECT f.name
  FROM schema_files f
 WHERE f.name ~ '^[a-z]' AND f.name <> ALL ($1)
   AND f.used_at < clock_timestamp() - interval '1 hour'
   AND NOT EXISTS (SELECT 1 FROM brokers b
                    WHERE f.name = ANY (b.functions) AND b.heartbeat_at >= clock_timestamp() - interval '1 hour')
 ORDER BY f.name
