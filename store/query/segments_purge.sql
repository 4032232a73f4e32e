-- The call of segments_purge_1.
SELECT deleted, more FROM segments_purge_1($1, $2, $3)
