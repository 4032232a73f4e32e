-- The settings that decide what a durable write costs. $1 names.
SELECT name, current_setting(name, true) FROM unnest($1::text[]) AS name
