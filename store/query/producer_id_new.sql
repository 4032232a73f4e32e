-- A producer id that was never given before, not even in an incarnation of the
-- database that was lost and took the sequence with it: an epoch is a time in seconds,
-- and nobody takes four million ids a second. Below 2^53.
SELECT ((c.epoch - 1)::bigint << 22) + nextval('producer_ids') FROM cluster c
