-- The call of lease_release_1.
SELECT lease_release_1($1)
