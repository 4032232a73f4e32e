-- The call of append_1, segments in order. See schema/functions/append_1.sql.
SELECT status, base_offset, end_offset, next_offset, log_start, window_seconds, created_at,
       part_verdicts, part_offsets, dup_index, dup_offset, dup_hi, dup_lo, dup_compacted
  FROM append_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40)
