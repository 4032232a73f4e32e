-- What group $1 has leased in partition $2: its position, and the live lease with its
-- last offset, null where there is none. Index: cursors_pkey.
SELECT c.next_offset,
       CASE WHEN c.lease_until > clock_timestamp() THEN c.lease_id END,
       CASE WHEN c.lease_until > clock_timestamp() THEN c.lease_end END
  FROM cursors c WHERE c.partition_id = $2 AND c.group_name = $1
