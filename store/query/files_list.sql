-- What was applied. A few dozen rows.
SELECT name, checksum FROM schema_files
