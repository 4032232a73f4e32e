-- Everything one writer wrote, in order. $1 writer. Index: baseline_pkey.
SELECT data FROM baseline WHERE writer = $1 ORDER BY n
