-- The call of queue_create_1.
SELECT queue_create_1($1, $2, $3, $4, $5)
