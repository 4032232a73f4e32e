-- Broker $1, process $2, is alive. Answers how many heartbeats that makes, which a
-- database that lost commits knows less of, whether commits still reach the disk, and which
-- process answered: all can change under open connections. No row: the id is another's by now.
UPDATE brokers SET heartbeat_at = clock_timestamp(), beats = beats + 1 WHERE id = $1 AND instance = $2
RETURNING beats, current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', pg_backend_pid()
