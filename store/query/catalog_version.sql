-- The number raised by every change of queues and partitions.
SELECT catalog_version FROM cluster
