-- The call of offsets_expire_1.
SELECT offsets_expire_1($1, $2, $3, $4, $5, $6, $7)
