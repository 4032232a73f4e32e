-- Which incarnation of the database this connection talks to, and its epoch.
-- $1: the lowest epoch this broker can take. See schema/functions/incarnation_observe_1.sql.
--
-- The timeline is taken from the name of the WAL file being written: the one in
-- pg_control_checkpoint() is the last checkpoint's, which a freshly promoted
-- standby has not made yet.
SELECT o.cluster_id, s.id, s.timeline, o.epoch
  FROM (SELECT c.system_identifier AS id,
               ('x' || lpad(left(pg_walfile_name(pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint AS timeline
          FROM pg_control_system() c) s,
       LATERAL incarnation_observe_1(s.id, s.timeline, pg_postmaster_start_time(), $1) o
