-- kv_purge_1 deletes at most p_rows keys that have expired by the database's clock,
-- those after p_after, in order of their expiry. Returns how many went, and the
-- expiry to go on after: so a step does not walk over what the steps before it left dead.
-- Locks: the keys' rows (place 1); one that is locked is left to the next round. Index: kv_expires.
CREATE FUNCTION kv_purge_1(p_after timestamptz, p_rows integer, OUT deleted integer, OUT upto timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();  -- a constant bounds the index scan
    k     record;
BEGIN
    deleted := 0;
    upto := p_after;
    FOR k IN SELECT x.ns, x.key, x.expires_at FROM kv x
              WHERE x.expires_at < 'infinity' AND x.expires_at > p_after AND x.expires_at <= v_now
               
              ORDER BY x.expires_at LIMIT p_rows FOR UPDATE SKIP LOCKED
    LOOP
        DELETE FROM kv x WHERE x.ns = k.ns AND x.key = k.key;
        deleted := deleted + 1;
        upto := k.expires_at;
    END LOOP;
END
$$;
