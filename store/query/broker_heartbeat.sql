-- Broker $1, process $2, is alive. No row: the id is another's by now.
UPDATE brokers SET heartbeat_at = clock_timestamp() WHERE id = $1 AND instance = $2 RETURNING id
