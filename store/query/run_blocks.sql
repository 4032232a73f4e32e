-- The blocks of the runs of partition $1 that end at the offsets $2.
-- Index: log_run_blocks_pkey.
SELECT last_offset, entries FROM log_run_blocks WHERE partition_id = $1 AND last_offset = ANY ($2)
