-- Schemas of benchmarks whose process is gone: nobody holds their lock.
-- $1 prefix of their names, $2 the lock's class.
SELECT nspname FROM pg_namespace
 WHERE starts_with(nspname, $1) AND pg_try_advisory_lock($2, hashtext(nspname))
