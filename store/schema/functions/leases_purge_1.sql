-- leases_purge_1 forgets leases that ended more than p_keep seconds ago by the
-- database's clock, at most about p_rows of them, starting after p_after: where the
-- step before ended, so that dead rows which an open snapshot keeps are not walked again.
--
-- Promise: how many rows went, and where the next step starts.
--
-- Locks: the rows deleted. Index: leases_until.
CREATE FUNCTION leases_purge_1(
    p_after timestamptz,
    p_keep  integer,
    p_rows  integer,
    OUT deleted integer,
    OUT upto    timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_before CONSTANT timestamptz := clock_timestamp() - make_interval(secs => p_keep);
BEGIN
    deleted := 0;
    SELECT max(x.until) INTO upto
      FROM (SELECT l.until FROM leases l
             WHERE l.until > p_after AND l.until < v_before
             ORDER BY l.until LIMIT p_rows) x;
    IF upto IS NULL THEN
        upto := p_after;
        RETURN;
    END IF;
    DELETE FROM leases l WHERE l.until > p_after AND l.until <= upto;
    GET DIAGNOSTICS deleted = ROW_COUNT;
END
$$;
