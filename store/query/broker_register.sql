-- The call of broker_register_1.
SELECT r.status, (r.broker).id, (r.broker).instance, (r.broker).host, (r.broker).port, (r.broker).peer_addr, (r.broker).version,
       (r.broker).functions, (r.broker).started_at, (r.broker).heartbeat_at
  FROM broker_register_1($1, $2, $3, $4, $5, $6, $7, $8, $9) r
