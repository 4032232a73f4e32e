-- Keys, by name and by prefix, as of one moment: one row per key that is there,
-- with the place (from 1) of whoever asked for it.
-- $1, $2 namespaces and keys; $3 … $8 pages: their places follow those of the
-- keys; namespace, prefix, the last key that can begin with it, the key to go
-- on after, rows at most, and whether values are wanted; $9 bytes of values of all
-- pages together: beyond them a row has none, but for each page's first one.
SELECT k.i, x.key, x.value, x.version, x.expires_at, x.updated_at
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY k(ns, key, i)
 CROSS JOIN LATERAL (
        SELECT v.* FROM kv v WHERE v.ns = k.ns AND v.key = k.key LIMIT 1
       ) x
 WHERE x.expires_at > statement_timestamp()
UNION ALL
SELECT cardinality($1::text[]) + z.i, z.key, CASE WHEN z.vals AND (z.n = 1 OR z.bytes <= $9) THEN z.value END,
       z.version, z.expires_at, z.updated_at
  FROM (
        -- The length of a value is known without fetching it.
        SELECT p.i, p.vals, x.*, row_number() OVER (PARTITION BY p.i ORDER BY x.key) AS n,
               sum(CASE WHEN p.vals THEN octet_length(x.value) ELSE 0 END) OVER (ORDER BY p.i, x.key) AS bytes
          FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::boolean[])
               WITH ORDINALITY p(ns, prefix, upto, after, rows, vals, i)
         CROSS JOIN LATERAL (
                SELECT v.* FROM kv v
                 WHERE v.ns = p.ns AND v.key >= p.prefix AND v.key <= p.upto AND v.key > p.after
                   AND v.expires_at > statement_timestamp()
                 ORDER BY v.key LIMIT p.rows
               ) x
       ) z
