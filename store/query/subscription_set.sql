-- The call of subscription_set_1: the names of the queues.
SELECT * FROM subscription_set_1($1, $2)
