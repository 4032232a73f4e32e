-- The call of queue_delete_1.
SELECT queue_delete_1($1, $2)
