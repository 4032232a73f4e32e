-- broker_register_1 gives a broker its id, or says who has it.
--
-- Promise: cluster.registrations has risen before the broker acts. Status 0 and the id; or status 1 and the row of the live broker that
-- has the wanted id. A row whose instance is p_instance or p_previous is the caller's
-- own, from a try whose answer was lost or from before its restart, and no obstacle,
-- nor is one without a heartbeat for
-- p_dead_ms. With p_wanted −1 the id is that of the caller's own row, else the
-- lowest free one from 1.
--
-- Locks: the row of cluster (a leaf), so that two do not find the same id free;
-- then rows of brokers, which only this and their owners write.
CREATE FUNCTION broker_register_1(
    p_wanted    integer,
    p_instance  uuid,
    p_previous  uuid,
    p_host      text,
    p_port      integer,
    p_peer      text,
    p_version   text,
    p_functions text[],
    p_dead_ms   bigint,
    OUT status  smallint,
    OUT broker  brokers
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_id integer := p_wanted;
    v_now timestamptz;
BEGIN
    UPDATE cluster SET registrations = registrations + 1;
    v_now := clock_timestamp();
    IF v_id < 0 THEN
        SELECT b.id INTO v_id FROM brokers b WHERE b.instance IN (p_instance, p_previous) ORDER BY b.id LIMIT 1;
        IF NOT FOUND THEN
            SELECT n INTO v_id FROM generate_series(1, (SELECT count(*)::integer + 1 FROM brokers)) n
             WHERE NOT EXISTS (SELECT 1 FROM brokers b
                                WHERE b.id = n AND abs(extract(epoch FROM v_now - b.heartbeat_at)) * 1000 < p_dead_ms)
             ORDER BY n LIMIT 1;
        END IF;
    END IF;
    -- A heartbeat far ahead comes from a clock that was set back since.
    SELECT b.* INTO broker FROM brokers b
     WHERE b.id = v_id AND b.instance <> p_instance AND b.instance IS DISTINCT FROM p_previous
       AND abs(extract(epoch FROM v_now - b.heartbeat_at)) * 1000 < p_dead_ms;
    IF FOUND THEN
        status := 1;
        RETURN;
    END IF;
    status := 0;
    INSERT INTO brokers AS b (id, instance, host, port, peer_addr, version, functions, started_at, heartbeat_at)
    VALUES (v_id, p_instance, p_host, p_port, p_peer, p_version, p_functions, v_now, v_now)
    ON CONFLICT (id) DO UPDATE
       SET instance = EXCLUDED.instance, host = EXCLUDED.host, port = EXCLUDED.port, peer_addr = EXCLUDED.peer_addr, version = EXCLUDED.version,
           functions = EXCLUDED.functions, started_at = EXCLUDED.started_at, heartbeat_at = EXCLUDED.heartbeat_at,
           beats = CASE WHEN b.instance = EXCLUDED.instance THEN b.beats ELSE 0 END
    RETURNING b.* INTO broker;
END
$$;
