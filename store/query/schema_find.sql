-- Whether schema $1 exists, whose it is, who asks, and what that role may do in
-- it. CREATE SCHEMA IF NOT EXISTS would ask for the right to create one even then.
SELECT s.oid IS NOT NULL,
       coalesce(pg_get_userbyid(s.nspowner), ''),
       current_user,
       current_database(),
       coalesce(has_schema_privilege(s.oid, 'USAGE'), false),
       coalesce(has_schema_privilege(s.oid, 'CREATE'), false)
  FROM (SELECT 1) one LEFT JOIN pg_namespace s ON s.nspname = $1
