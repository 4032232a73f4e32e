-- The call of queue_configure_1: the queue after, before, and whether it is new.
SELECT to_jsonb(c.q), to_jsonb(c.before), c.created FROM queue_configure_1($1, $2, $3, $4, $5) c WHERE (c.q).id IS NOT NULL
