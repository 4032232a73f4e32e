-- The call of compaction_done_1.
SELECT compaction_done_1($1, $2, $3, $4, $5)
