-- Waits for the turn to migrate, without a timeout; what is locked afterwards
-- has one. The number is our own and not the one tern takes inside, which is
-- then never contended.
SET lock_timeout = 0;
SELECT pg_advisory_lock(7165797901);
RESET lock_timeout;
