-- What must be known of a server before it is trusted, and what the settings named
-- in $1 are on this connection. Two settings that not all versions have, and that would
-- end a connection in the middle of a call or while it waits for one, are set here.
SELECT current_setting('server_version_num')::integer,
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('server_encoding'),
       ARRAY(SELECT current_setting(n) FROM unnest($1::text[]) WITH ORDINALITY s(n, i) ORDER BY i),
       CASE WHEN current_setting('idle_session_timeout', true) <> '0' THEN set_config('idle_session_timeout', '0', false) END,
       CASE WHEN current_setting('transaction_timeout', true) <> '0' THEN set_config('transaction_timeout', '0', false) END
