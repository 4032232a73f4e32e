-- Whether schema $1 exists. CREATE SCHEMA IF NOT EXISTS would ask for the right
-- to create one even then.
SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)
