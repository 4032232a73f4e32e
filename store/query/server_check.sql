-- What must be known of a server before it is trusted.
SELECT current_setting('server_version_num')::integer,
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('server_encoding')
