-- The bare writer's table: keyed like the log, values out of line and as they are.
CREATE TABLE baseline (
    writer bigint NOT NULL,
    n      bigint NOT NULL,
    data   bytea  NOT NULL,
    PRIMARY KEY (writer, n)
);
ALTER TABLE baseline ALTER COLUMN data SET STORAGE EXTERNAL;
