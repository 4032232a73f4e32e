-- Whether the schema's functions may be replaced.
SELECT scratch FROM cluster
