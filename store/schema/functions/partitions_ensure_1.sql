-- partitions_ensure_1 makes those of the named partitions of a queue that are missing,
-- and the queue where it is: a native queue comes into being with its first message.
--
-- Promise: the queue's row as it is afterwards. A fixed queue is left as it is.
-- Numbers are dense, in order of creation, which is that of the names. A queue that
-- is made here has the table's defaults.
--
-- Locks: the queue's row (place 3), then new rows, then the row of cluster (a leaf).
-- Indexes: queues_name, log_partitions_queue_id_name_key (a look per name).
CREATE FUNCTION partitions_ensure_1(p_queue text, p_names text[]) RETURNS queues
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_queue   queues;
    v_version bigint;
    v_made    integer;
BEGIN
    LOOP
        INSERT INTO queues (name, fixed) VALUES (p_queue, false)
        ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
        SELECT x.* INTO v_queue FROM queues x WHERE x.name = p_queue AND x.deleted_at IS NULL FOR NO KEY UPDATE;
        EXIT WHEN FOUND;  -- else it was deleted between the two: once more
    END LOOP;
    IF v_queue.fixed THEN
        RETURN v_queue;
    END IF;
    -- Looked for in a statement that sees what the lock's holder before committed.
    INSERT INTO log_partitions (queue_id, number, name)
    SELECT v_queue.id, v_queue.partitions + row_number() OVER (ORDER BY n.i) - 1, n.name
      FROM (SELECT u.name, min(u.i) AS i FROM unnest(p_names) WITH ORDINALITY u(name, i) GROUP BY u.name) n
      LEFT JOIN LATERAL (SELECT x.id FROM log_partitions x WHERE x.queue_id = v_queue.id AND x.name = n.name LIMIT 1) p ON true
     WHERE p.id IS NULL
     ORDER BY n.i;
    GET DIAGNOSTICS v_made = ROW_COUNT;
    IF v_made > 0 THEN
        UPDATE cluster SET catalog_version = catalog_version + 1 RETURNING catalog_version INTO v_version;
        UPDATE queues x SET partitions = x.partitions + v_made, version = v_version WHERE x.id = v_queue.id RETURNING x.* INTO v_queue;
    END IF;
    RETURN v_queue;
END
$$;
