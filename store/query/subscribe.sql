-- The call of subscribe_1.
SELECT subscribe_1($1, $2, $3, $4)
