-- The slots of the group coordinator, ascending. Index: group_slots_pkey.
SELECT owner, epoch FROM group_slots ORDER BY slot
