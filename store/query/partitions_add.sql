-- The call of partitions_add_1: the queue after, and whether any were added.
SELECT partitions_add_1($1, $2, $3)
