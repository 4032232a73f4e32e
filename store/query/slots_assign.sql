-- The call of slots_assign_1.
SELECT slots_assign_1($1, $2, $3, $4)
