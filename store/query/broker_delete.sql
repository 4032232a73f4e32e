-- Broker $1, process $2, has ended.
DELETE FROM brokers WHERE id = $1 AND instance = $2
