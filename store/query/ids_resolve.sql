-- The call of ids_resolve_1.
SELECT i, off FROM ids_resolve_1($1, $2, $3, $4, $5)
