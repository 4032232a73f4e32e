-- The call of segments_purge_1.
SELECT segments_purge_1($1, $2)
