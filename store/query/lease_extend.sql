-- The call of lease_extend_1.
SELECT renewed, until FROM lease_extend_1($1, $2)
