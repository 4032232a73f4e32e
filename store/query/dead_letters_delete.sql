-- The call of dead_letters_delete_1.
SELECT dead_letters_delete_1($1, $2)
