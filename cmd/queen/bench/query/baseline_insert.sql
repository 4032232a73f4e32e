-- One row of the bare writer, committed by itself. $1 writer, $2 number, $3 bytes.
INSERT INTO baseline (writer, n, data) VALUES ($1, $2, $3)
