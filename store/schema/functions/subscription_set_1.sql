-- subscription_set_1 moves where a group begins in the partitions it has no position
-- in: with what is stored after p_at.
--
-- Promise: it is so in every queue in which the group has a position or a
-- subscription; their names are returned, none where there is no such group. Its
-- positions stay.
--
-- Locks: subscriptions in ascending queue (place 6). Indexes: subscriptions_group,
-- cursors_group, log_partitions_pkey, queues_pkey, subscriptions_pkey.
CREATE FUNCTION subscription_set_1(p_group text, p_at timestamptz) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN QUERY
    WITH its AS (
        SELECT s.queue_id FROM subscriptions s WHERE s.group_name = p_group
        UNION
        SELECT p.queue_id FROM cursors c JOIN log_partitions p ON p.id = c.partition_id WHERE c.group_name = p_group
    ), moved AS (
        INSERT INTO subscriptions AS s (queue_id, group_name, created_at)
        SELECT i.queue_id, p_group, p_at FROM its i JOIN queues q ON q.id = i.queue_id AND q.deleted_at IS NULL
         ORDER BY i.queue_id
        ON CONFLICT (queue_id, group_name) DO UPDATE SET created_at = EXCLUDED.created_at
        RETURNING s.queue_id
    )
    SELECT q.name FROM moved m JOIN queues q ON q.id = m.queue_id ORDER BY q.name;
END
$$;
