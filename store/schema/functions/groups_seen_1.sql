-- groups_seen_1 notes that groups have, or just had, members.
--
-- Promise: seen_at of each is now, by the database's clock. Of the groups not seen for
-- p_forget_ms that have no position left, at most p_rows are forgotten.
--
-- Locks: group_activity in ascending order (place 7). Index: group_activity_pkey, cursors_group.
CREATE FUNCTION groups_seen_1(p_group text[], p_forget_ms bigint, p_rows integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    INSERT INTO group_activity AS a (group_name, seen_at)
    SELECT DISTINCT u.name COLLATE "C", v_now FROM unnest(p_group) u(name) ORDER BY 1
    ON CONFLICT (group_name) DO UPDATE SET seen_at = EXCLUDED.seen_at;
    DELETE FROM group_activity a WHERE a.group_name = ANY (ARRAY(
        SELECT x.group_name FROM group_activity x
         WHERE x.seen_at < v_now - p_forget_ms * interval '1 millisecond'
           AND NOT EXISTS (SELECT FROM cursors c WHERE c.group_name = x.group_name)
         ORDER BY x.group_name LIMIT p_rows FOR UPDATE SKIP LOCKED));
END
$$;
