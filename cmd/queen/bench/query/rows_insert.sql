-- One batch of messages, committed by itself. $1 partition, $2 ids, $3 values.
-- Index: rows_partition_id_key.
INSERT INTO rows (partition, id, data)
SELECT $1, m.id, m.data FROM unnest($2::text[], $3::bytea[]) AS m (id, data)
    ON CONFLICT (partition, id) DO NOTHING
