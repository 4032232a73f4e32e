-- incarnation_observe_1 compares the database's incarnation with the stored one
-- and gives a new one its leader epoch.
--
-- Promise: the epoch returned is above every epoch given to another incarnation
-- that this database or the caller knows of, and never goes back.
-- p_floor: the highest epoch the caller has met; above the stored one it proves
-- that the database lost commits, so that counts as a new incarnation too.
--
-- Locks: the row of cluster (a leaf), only when something changed.
CREATE FUNCTION incarnation_observe_1(
    p_system_identifier bigint,
    p_timeline          bigint,
    p_floor             integer,
    OUT cluster_id      uuid,
    OUT epoch           integer
)
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
    SELECT c.cluster_id, c.epoch INTO cluster_id, epoch FROM cluster c
     WHERE c.system_identifier = p_system_identifier AND c.timeline = p_timeline AND c.epoch >= p_floor;
    IF FOUND THEN
        RETURN;
    END IF;
    -- Judged again under the row's lock: twenty connections may come at once.
    UPDATE cluster AS c
       SET system_identifier = p_system_identifier, timeline = p_timeline,
           epoch = GREATEST(c.epoch, p_floor) + 1
     WHERE c.system_identifier <> p_system_identifier OR c.timeline <> p_timeline OR c.epoch < p_floor;
    SELECT c.cluster_id, c.epoch INTO cluster_id, epoch FROM cluster c;
END
$$;
