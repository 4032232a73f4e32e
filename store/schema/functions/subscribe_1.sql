-- subscribe_1 notes where a group begins in queues that it asks for the first time.
--
-- Promise: what was noted before stays. Else the group begins with what is stored
-- after p_from, or p_ago_ms before now by the database's clock; both null: with
-- everything.
--
-- Locks: subscriptions in ascending queue (place 6). Index: subscriptions_pkey.
CREATE FUNCTION subscribe_1(p_queues bigint[], p_group text, p_from timestamptz, p_ago_ms bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO subscriptions (queue_id, group_name, created_at)
    SELECT u.id, p_group, COALESCE(p_from, clock_timestamp() - p_ago_ms * interval '1 millisecond', '-infinity')
      FROM unnest(p_queues) u(id)
     ORDER BY u.id
    ON CONFLICT DO NOTHING;
END
$$;
