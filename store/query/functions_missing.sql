-- Those of the functions $1 that the current schema lacks. Index: pg_proc_proname_args_nsp_index.
SELECT n FROM unnest($1::text[]) n
 WHERE NOT EXISTS (SELECT 1 FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace
                    WHERE p.proname = n AND s.nspname = current_schema())
