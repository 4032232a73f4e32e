-- The call of cursors_delete_1.
SELECT cursors_delete_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
