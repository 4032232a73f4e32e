-- How often a broker was registered, and whether another process than $1 may write:
-- it has a row, and gave a sign of life in the last $2 milliseconds. Where both are
-- what they were, nobody else has written meanwhile.
SELECT c.registrations, EXISTS (SELECT FROM brokers b WHERE b.instance <> $1
                                   AND abs(extract(epoch FROM clock_timestamp() - b.heartbeat_at)) * 1000 < $2::bigint)
  FROM cluster c
