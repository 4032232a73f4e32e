-- Messages a row each, as an application keeps them that wants what a queue does:
-- an order to read them in, their time for what is kept how long, and an index
-- that refuses an id twice.
CREATE TABLE rows (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition  bigint      NOT NULL,
    id         text        NOT NULL,
    data       bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (partition, id)
);
ALTER TABLE rows ALTER COLUMN data SET STORAGE EXTERNAL;
