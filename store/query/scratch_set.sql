-- Marks the schema as one whose functions may be replaced.
UPDATE cluster SET scratch = true
