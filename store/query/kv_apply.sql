-- The call of kv_1: see schema/functions/kv_1.sql.
SELECT kv_1($1, $2, $3)
