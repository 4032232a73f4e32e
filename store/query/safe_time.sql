-- The moment up to which every write is seen by whatever is read from now on. A write
-- that is not committed yet is stamped by the clock after it began and took its locks,
-- so after the start of its transaction, which has an id by then; one without an id
-- is stamped later than now. Brokers must be able to see each other's transactions:
-- they share one database user, or have pg_read_all_stats.
SELECT LEAST(clock_timestamp(), min(a.xact_start))
  FROM pg_stat_activity a
 WHERE a.backend_xid IS NOT NULL AND a.datname = current_database()
