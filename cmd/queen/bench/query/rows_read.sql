-- Every message. Reads the whole table.
SELECT data FROM rows
