-- What must be known of a server before it is trusted, and what the settings named
-- in $1 are on this connection.
SELECT current_setting('server_version_num')::integer,
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('server_encoding'),
       ARRAY(SELECT current_setting(n) FROM unnest($1::text[]) WITH ORDINALITY s(n, i) ORDER BY i)
