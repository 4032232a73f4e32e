-- The call of segments_compact_1.
SELECT segments_compact_1($1, $2, $3, $4, $5, $6, $7, $8)
