-- The call of lease_release_1.
SELECT group_name, partition_id FROM lease_release_1($1)
