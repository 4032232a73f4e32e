-- The brokers with a heartbeat in the last $1 milliseconds, by id. One far ahead
-- comes from a clock that was set back since. Index: brokers_pkey.
SELECT id, instance, host, port, peer_addr, version, functions, started_at, heartbeat_at
  FROM brokers
 WHERE abs(extract(epoch FROM clock_timestamp() - heartbeat_at)) * 1000 < $1::bigint
 ORDER BY id
