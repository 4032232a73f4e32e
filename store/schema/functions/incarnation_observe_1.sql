-- incarnation_observe_1 compares the database's incarnation with the stored one
-- and gives a new one its leader epoch.
--
-- Promise: the epoch returned is above every epoch given to another incarnation
-- that this database or the caller knows of, and never goes back. From the second on
-- it is also a time, in seconds, so that it is above the epochs of an incarnation that
-- nobody is left to know of: one that was lost to a backup made before it began. The
-- incarnation is another one where
--   the system identifier or the timeline is: failover, recovery to a point in time,
--   the row of cluster lies in another table: a dump was restored,
--   the server was started since: its files may be older ones, which nothing else shows,
--   p_floor, the lowest epoch the caller can take, is above the stored one: this
--     database lost commits.
--
-- Locks: the row of cluster (a leaf), only when something changed.
CREATE FUNCTION incarnation_observe_1(
    p_system_identifier bigint,
    p_timeline          bigint,
    p_started_at        timestamptz,
    p_floor             integer,
    OUT cluster_id      uuid,
    OUT epoch           integer
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    v_seconds integer;
BEGIN
    SELECT c.cluster_id, c.epoch INTO cluster_id, epoch FROM cluster c
     WHERE c.system_identifier = p_system_identifier AND c.timeline = p_timeline AND c.home = c.tableoid
       AND c.started_at = p_started_at AND c.epoch >= p_floor;
    IF FOUND THEN
        RETURN;
    END IF;
    v_seconds := extract(epoch FROM clock_timestamp() - timestamptz '2026-01-01 00:00:00Z')::integer;
    -- Judged again under the row's lock: twenty connections may come at once.
    UPDATE cluster AS c
       SET system_identifier = p_system_identifier, timeline = p_timeline, home = c.tableoid, started_at = p_started_at,
           epoch = CASE WHEN c.epoch = 0 AND p_floor = 0 THEN 1 ELSE GREATEST(c.epoch, p_floor, v_seconds) + 1 END
     WHERE c.system_identifier <> p_system_identifier OR c.timeline <> p_timeline OR c.home <> c.tableoid
        OR c.started_at <> p_started_at OR c.epoch < p_floor;
    SELECT c.cluster_id, c.epoch INTO cluster_id, epoch FROM cluster c;
END
$$;
