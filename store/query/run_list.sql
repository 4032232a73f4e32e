-- The sorted runs of partition $1, oldest first.
-- Index: log_runs_pkey.
SELECT last_offset, first_offset, level, ids FROM log_runs WHERE partition_id = $1 ORDER BY last_offset
