-- calls_purge_1 forgets calls older than p_keep seconds by the database's clock, at
-- most about p_rows of them, starting after p_after: where the step before ended, so
-- that dead rows which an open snapshot keeps are not walked again.
--
-- Promise: how many rows went, and where the next step starts.
--
-- Locks: the rows deleted, which nobody else writes. Index: calls_called.
CREATE FUNCTION calls_purge_1(
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
    SELECT max(x.called_at) INTO upto
      FROM (SELECT c.called_at FROM calls c
             WHERE c.called_at > p_after AND c.called_at < v_before
             ORDER BY c.called_at LIMIT p_rows) x;
    IF upto IS NULL THEN
        upto := p_after;
        RETURN;
    END IF;
    DELETE FROM calls c WHERE c.called_at > p_after AND c.called_at <= upto;
    GET DIAGNOSTICS deleted = ROW_COUNT;
END
$$;
