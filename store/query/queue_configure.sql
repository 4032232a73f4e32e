-- The call of queue_configure_1: the queue after, before, and whether it is new.
SELECT queue_configure_1($1, $2, $3, $4, $5, $6)
