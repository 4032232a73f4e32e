-- The log, its ids, its readers' positions and its brokers. One screen of it is
-- in store/doc.go. Names are plain: search_path chooses the schema.

-- What belongs to the whole database. One row.
CREATE TABLE cluster (
    one                boolean PRIMARY KEY DEFAULT true CHECK (one),
    cluster_id         uuid    NOT NULL DEFAULT gen_random_uuid(),
    -- The incarnation last seen, and the leader epoch it was given. The epoch
    -- is raised when the incarnation changes (failover, restore), never lowered.
    system_identifier  bigint  NOT NULL DEFAULT 0,
    timeline           bigint  NOT NULL DEFAULT 0,
    home               oid     NOT NULL DEFAULT 0,            -- this very table, which a restored dump is not
    started_at         timestamptz NOT NULL DEFAULT '-infinity', -- when its server was
    epoch              integer NOT NULL DEFAULT 0,
    -- Raised by every change of queues or partitions; polled by brokers.
    catalog_version    bigint  NOT NULL DEFAULT 1,
    -- The highest version of a deleted queue whose row is gone too: who has not seen
    -- that one cannot list all that changed.
    swept_version      bigint  NOT NULL DEFAULT 0,
    -- How often a broker was registered.
    registrations      bigint  NOT NULL DEFAULT 0,
    -- Made for tests or development: migrate may replace functions in it.
    scratch            boolean NOT NULL DEFAULT false
);
INSERT INTO cluster DEFAULT VALUES;

CREATE TABLE queues (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                 text COLLATE "C" NOT NULL,
    topic_id             uuid    NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    fixed                boolean NOT NULL,            -- made by a Kafka client: a fixed set of partitions
    partitions           integer NOT NULL DEFAULT 0,  -- how many there are: the next number
    dedup_window_seconds integer NOT NULL DEFAULT 3600 CHECK (dedup_window_seconds >= 0),
    window_from          text    NOT NULL DEFAULT 'default' CHECK (window_from IN ('default', 'configured', 'kafka')),
    max_message_bytes    integer NOT NULL DEFAULT 1048588 CHECK (max_message_bytes > 0),
    retention_ms         bigint  NOT NULL DEFAULT -1 CHECK (retention_ms >= -1),
    retention_bytes      bigint  NOT NULL DEFAULT -1 CHECK (retention_bytes >= -1),
    -- Batches of Kafka clients: whose clock counts, and how far a client's may be off.
    log_append_time      boolean NOT NULL DEFAULT false,
    timestamp_before_max_ms bigint NOT NULL DEFAULT 9223372036854775807 CHECK (timestamp_before_max_ms >= 0),
    timestamp_after_max_ms  bigint NOT NULL DEFAULT 3600000 CHECK (timestamp_after_max_ms >= 0),
    -- The sidecar is kept at least this long, whatever the window.
    completed_retention_seconds integer NOT NULL DEFAULT 0 CHECK (completed_retention_seconds >= 0),
    -- What becomes of old messages: expired ones go, superseded ones go (compaction), or both.
    cleanup_delete       boolean NOT NULL DEFAULT true,
    cleanup_compact      boolean NOT NULL DEFAULT false,
    -- Compaction: how long a message is left alone at least, when it no longer is
    -- at the latest, how long a tombstone stays after that, and how large the part
    -- of the log must be that is not compacted.
    compaction_lag_min_ms  bigint NOT NULL DEFAULT 0 CHECK (compaction_lag_min_ms >= 0),
    compaction_lag_max_ms  bigint NOT NULL DEFAULT 9223372036854775807 CHECK (compaction_lag_max_ms > 0),
    tombstone_retention_ms bigint NOT NULL DEFAULT 86400000 CHECK (tombstone_retention_ms >= 0),
    dirty_ratio_min        double precision NOT NULL DEFAULT 0.5 CHECK (dirty_ratio_min BETWEEN 0 AND 1),
    -- The codec that batches of Kafka clients are stored in; 'producer': as sent.
    compression          text    NOT NULL DEFAULT 'producer',
    -- Where the id of a Kafka record comes from: 'none', 'key' or 'header:NAME'.
    dedup_source         text    NOT NULL DEFAULT 'none',
    -- How many offsets back an id is known; no limit by default.
    dedup_max_ids        bigint  NOT NULL DEFAULT 9223372036854775807 CHECK (dedup_max_ids > 0),
    -- Topic configs set by name through Kafka, as text: what has a column of its
    -- own is enforced from there, the rest is only reported back.
    configs              jsonb   NOT NULL DEFAULT '{}',
    -- How native consumers are served: the lease of a batch whose consumer does not
    -- say, how often a message may fail before it is a dead letter, how long the
    -- group waits after a failure, and how old a message is when it is first given.
    lease_seconds        integer NOT NULL DEFAULT 300 CHECK (lease_seconds > 0),
    retry_limit          integer NOT NULL DEFAULT 3 CHECK (retry_limit >= 0),
    retry_delay_ms       bigint  NOT NULL DEFAULT 0 CHECK (retry_delay_ms >= 0),
    delay_seconds        integer NOT NULL DEFAULT 0 CHECK (delay_seconds >= 0),
    -- What all of these groups have completed may go, whatever its age.
    retention_groups     text[] COLLATE "C" NOT NULL DEFAULT '{}',
    -- Two labels that native consumers can pop by; empty is none.
    namespace            text COLLATE "C" NOT NULL DEFAULT '',
    task                 text COLLATE "C" NOT NULL DEFAULT '',
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at           timestamptz,                 -- tombstone: the name is free, the rows wait for the sweeper
    deleted_by           uuid,                        -- the call that put it there
    version              bigint NOT NULL DEFAULT 0,   -- cluster.catalog_version of its last change
    CONSTRAINT queues_source_needs_window CHECK (dedup_source = 'none' OR dedup_window_seconds > 0),
    CONSTRAINT queues_source_or_compact CHECK (dedup_source = 'none' OR NOT cleanup_compact),
    CONSTRAINT queues_some_cleanup CHECK (cleanup_delete OR cleanup_compact)
) WITH (fillfactor = 70); -- a tombstone has room in its page: what frees a full disk needs no more of it
CREATE UNIQUE INDEX queues_name ON queues (name) WHERE deleted_at IS NULL;
CREATE INDEX queues_version ON queues (version);
CREATE INDEX queues_deleted ON queues (deleted_at); -- of all: an index without a row would need its first page for a tombstone
CREATE INDEX queues_compacted ON queues (id) WHERE cleanup_compact;

-- One row per partition. Append locks it and never updates it, so the row
-- stays one tuple whatever snapshots are open; only log start, the sidecar's
-- start and deletion change it.
CREATE TABLE log_partitions (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id     bigint  NOT NULL,
    number       integer NOT NULL,
    name         text COLLATE "C" NOT NULL,
    start_offset bigint  NOT NULL DEFAULT 0,  -- log start: lower offsets are gone
    txns_start   bigint  NOT NULL DEFAULT 0,  -- lower offsets have no txns row any more
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (queue_id, number),
    UNIQUE (queue_id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.02);

-- The log: one row per flush of a partition, its record batches as served or packed.
CREATE TABLE log_segments (
    partition_id  bigint  NOT NULL,
    end_offset    bigint  NOT NULL,   -- the last offset, inclusive
    base_offset   bigint  NOT NULL,
    created_at    timestamptz NOT NULL,
    max_timestamp bigint  NOT NULL,   -- running maximum over the partition, ms: monotone, so time is found by bisection
    leader_epoch  integer NOT NULL,
    records       integer NOT NULL,
    size          integer NOT NULL,   -- bytes as served
    header        bytea   NOT NULL,   -- versioned, see queen/segment.go
    data          bytea   NOT NULL,
    -- Running sum of the sizes written to the partition, this one included. It
    -- counts what was removed since, so differences are found by two looks.
    total_size    bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (partition_id, end_offset)
);
-- No statistics of what no plan asks about, here and below: ANALYZE counts the
-- elements of arrays, which of ids took a quarter of the server's time under load.
ALTER TABLE log_segments ALTER COLUMN data SET STORAGE EXTERNAL,
    ALTER COLUMN data SET STATISTICS 0, ALTER COLUMN header SET STATISTICS 0;
-- What lies in TOAST is written once and found through an index: a vacuum for
-- inserts alone, which reads all of it again, has nothing to give back. Under load
-- it took a fifth of a core without a pause. What retention deletes is vacuumed as
-- ever, and so is what gets old.
ALTER TABLE log_segments SET (toast.autovacuum_vacuum_insert_threshold = -1);

-- The sidecar: what is known of a segment's ids. Written for every segment,
-- window or not, because acknowledging by id resolves through it; the newest
-- row of a partition is never purged, because the next offset is its end + 1.
CREATE TABLE log_txns (
    partition_id  bigint NOT NULL,
    end_offset    bigint NOT NULL,
    base_offset   bigint NOT NULL,
    created_at    timestamptz NOT NULL,
    max_timestamp bigint NOT NULL,
    -- The id base, a UUIDv7 as two halves; message i has the id (hi, lo + i).
    id_hi         bigint NOT NULL,
    id_lo         bigint NOT NULL,
    -- One xxh3-128 hash per offset; the nil UUID stands for a minted id or a
    -- hole; empty when all ids are minted.
    hashes        uuid[] NOT NULL,
    -- Per offset, how long its id is known, in ms, where less than the window;
    -- NULL when no id of the row has a time of its own.
    ttls          bigint[],
    -- What became of each part of the call, where any was left out: else NULL
    -- and the parts follow one another. A repeat of the call is answered from it.
    part_verdicts smallint[],
    part_offsets  bigint[],
    total_size    bigint NOT NULL DEFAULT 0,  -- as in log_segments
    PRIMARY KEY (partition_id, end_offset)
);
ALTER TABLE log_txns ALTER COLUMN hashes SET STORAGE EXTERNAL, ALTER COLUMN hashes SET STATISTICS 0,
    ALTER COLUMN ttls SET STATISTICS 0, ALTER COLUMN part_verdicts SET STATISTICS 0, ALTER COLUMN part_offsets SET STATISTICS 0;
ALTER TABLE log_txns SET (toast.autovacuum_vacuum_insert_threshold = -1);
-- A minted id names its row: the clock in its first half makes this index grow at its end.
CREATE INDEX log_txns_ids ON log_txns (partition_id, id_hi);

-- Sorted runs of the sidecar's hashes, so that a probe of a large span need not
-- read it. Derived: dropping them changes no verdict, only its cost. Between the
-- runs of a partition lies nothing but what was purged.
CREATE TABLE log_runs (
    partition_id bigint  NOT NULL,
    last_offset  bigint  NOT NULL,
    first_offset bigint  NOT NULL,
    level        integer NOT NULL,
    ids          integer NOT NULL,
    blocks       integer NOT NULL,
    PRIMARY KEY (partition_id, last_offset)
);

-- A run's entries in ascending order, some to a row: small enough to stay in line. The
-- upper half of an entry is the key, the first 32 bits of a hash, the lower the offset,
-- counted from the run's first_offset. All keys are equally probable, so a key says which of
-- the run's blocks it is in: of two, the second has those from 0 on. One without
-- entries has no row.
CREATE TABLE log_run_blocks (
    partition_id bigint    NOT NULL,
    last_offset  bigint    NOT NULL,  -- of the run
    block        integer   NOT NULL,  -- from 0
    entries      bigint[]  NOT NULL,
    PRIMARY KEY (partition_id, last_offset, block)
);
ALTER TABLE log_run_blocks ALTER COLUMN entries SET STORAGE EXTERNAL, ALTER COLUMN entries SET STATISTICS 0;

-- Idempotent producers: epoch and the last five batches. The end offset is part
-- of the key so that the newest version is the first index entry met going
-- down, however many dead ones an open snapshot keeps.
CREATE TABLE producers (
    partition_id bigint   NOT NULL,
    producer_id  bigint   NOT NULL,
    end_offset   bigint   NOT NULL,
    epoch        integer  NOT NULL,
    first_seqs   integer[] NOT NULL,  -- oldest first, at most five
    last_seqs    integer[] NOT NULL,
    base_offsets bigint[] NOT NULL,
    updated_at   timestamptz NOT NULL,
    PRIMARY KEY (partition_id, producer_id, end_offset)
);
CREATE SEQUENCE producer_ids MINVALUE 1;

-- How far partitions are compacted. Compaction removes superseded messages from
-- log_segments and whole rows that have none left; never the last row of a
-- partition, and never anything from log_txns.
CREATE TABLE log_compactions (
    partition_id   bigint PRIMARY KEY,
    clean_to       bigint NOT NULL,  -- below it no message is superseded by another below it
    clean_bytes    bigint NOT NULL,  -- the size of what is left below it
    clean_total    bigint NOT NULL,  -- log_segments.total_size of what was written below it
    tombstones_due timestamptz       -- when the first tombstone below it may go; NULL: there is none
);

-- A group's position in a partition, for both doors, and its native lease.
CREATE TABLE cursors (
    partition_id bigint NOT NULL,
    group_name   text COLLATE "C" NOT NULL,
    next_offset  bigint NOT NULL,
    -- What a Kafka client committed, where next_offset is another: an offset the log
    -- does not have yet, or had once. It is read back so; the group goes on at next_offset.
    committed    bigint,
    leader_epoch integer NOT NULL DEFAULT -1,
    metadata     bytea  NOT NULL DEFAULT '',
    kafka        boolean NOT NULL,            -- last written by a Kafka commit
    committed_at timestamptz NOT NULL,
    lease_id     uuid,
    lease_end    bigint,                      -- last offset under the lease
    lease_until  timestamptz,
    acked        bigint[] NOT NULL DEFAULT '{}', -- completed ahead of next_offset, ascending
    not_before   timestamptz,                 -- after a failure: nothing is given until then
    failing      integer NOT NULL DEFAULT 0,  -- rows in retries
    -- The newest commit under the group's coordinator, of all that were begun: one begun
    -- before it may still arrive. NULL: there was none.
    slot_epoch   bigint,                      -- group_slots.epoch then
    slot_serial  bigint,                      -- the how manieth of that owner's
    PRIMARY KEY (partition_id, group_name)
) WITH (fillfactor = 50);
-- With the whole key, so that whichever of the two indexes a plan enters finds one row.
CREATE INDEX cursors_group ON cursors (group_name, partition_id);

-- How often a message failed that the group is not done with. Bounded like acked.
CREATE TABLE retries (
    partition_id  bigint NOT NULL,
    group_name    text COLLATE "C" NOT NULL,
    record_offset bigint NOT NULL,
    failures      integer NOT NULL,
    PRIMARY KEY (partition_id, group_name, record_offset)
);

-- A batch given to a consumer: one lease over some partitions. Whether it is live
-- is said by their cursors alone; this finds them by the lease's id, to extend or
-- to give back, and answers a repeated claim.
CREATE TABLE leases (
    id         uuid PRIMARY KEY,            -- UUIDv7, so that the key grows at its end
    group_name text COLLATE "C" NOT NULL,
    partitions bigint[] NOT NULL,           -- ascending
    lease_ms   bigint NOT NULL,             -- as it was asked for
    until      timestamptz NOT NULL         -- as last extended
);
CREATE INDEX leases_until ON leases (until);

-- Messages a group gave up on. The segment that holds one is kept beside, so that
-- retention of the log takes none of them.
CREATE TABLE dead_letters (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id      bigint NOT NULL,
    partition_id  bigint NOT NULL,
    group_name    text COLLATE "C" NOT NULL,
    record_offset bigint NOT NULL,
    segment_end   bigint,                   -- in dead_segments; null: its bytes were gone already
    failures      integer NOT NULL,         -- that were counted
    reason        text NOT NULL,
    died_at       timestamptz NOT NULL
);
CREATE INDEX dead_letters_queue ON dead_letters (queue_id, id);
CREATE INDEX dead_letters_place ON dead_letters (partition_id, record_offset);
CREATE INDEX dead_letters_segment ON dead_letters (partition_id, segment_end);

CREATE TABLE dead_segments (
    partition_id  bigint  NOT NULL,
    end_offset    bigint  NOT NULL,
    base_offset   bigint  NOT NULL,
    created_at    timestamptz NOT NULL,
    max_timestamp bigint  NOT NULL,
    leader_epoch  integer NOT NULL,
    records       integer NOT NULL,
    size          integer NOT NULL,
    header        bytea   NOT NULL,
    data          bytea   NOT NULL,
    PRIMARY KEY (partition_id, end_offset)
);
ALTER TABLE dead_segments ALTER COLUMN data SET STORAGE EXTERNAL;

-- Where a native group begins in the partitions of a queue it has no position
-- in: with what is stored after created_at, which is −infinity for everything. The
-- group's first request says it. Partitions born later start at 0.
CREATE TABLE subscriptions (
    queue_id   bigint NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue_id, group_name)
);
CREATE INDEX subscriptions_group ON subscriptions (group_name, queue_id);

-- What became of calls that no id base makes repeatable: acks, keys and values,
-- transactions, changes of queues, deletions of positions. A row is written with the call's other writes, so that a repeat
-- of it (a lost answer, a slow first attempt) takes effect once and is answered
-- like the first. Kept 900 s.
CREATE TABLE calls (
    id        uuid PRIMARY KEY,          -- UUIDv7, so that the key grows at its end
    called_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    answer    jsonb NOT NULL
);
CREATE INDEX calls_called ON calls (called_at);

-- Keys and values. A version is never given twice, so that a key that was deleted
-- or has expired cannot meet a version its earlier holder still carries.
CREATE SEQUENCE kv_versions;
CREATE TABLE kv (
    ns         text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      text   NOT NULL,                     -- JSON, as it was sent
    version    bigint NOT NULL,                     -- 0 within a call: locked, not there yet
    expires_at timestamptz NOT NULL,                -- infinity: never
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (ns, key)
);
CREATE INDEX kv_expires ON kv (expires_at) WHERE expires_at < 'infinity';

-- Messages for later. The row goes in the call that appends its message.
CREATE TABLE timers (
    queue      text COLLATE "C" NOT NULL,
    timer_key  text COLLATE "C" NOT NULL,
    partition  text,                                -- NULL: as for a push that names none
    txn        bytea  NOT NULL,                     -- the message's transactionId
    payload    bytea  NOT NULL,
    id_hi      bigint NOT NULL,                     -- the message's id: it names this scheduling
    id_lo      bigint NOT NULL,
    deliver_at timestamptz NOT NULL,
    due_at     timestamptz NOT NULL,                -- deliver_at, or later after failed attempts
    attempts   integer NOT NULL DEFAULT 0,
    last_error text,
    PRIMARY KEY (queue, timer_key)
);
CREATE INDEX timers_due ON timers (due_at);

-- Live brokers. instance tells a restarted process from its predecessor.
CREATE TABLE brokers (
    id           integer PRIMARY KEY CHECK (id >= 0),
    instance     uuid    NOT NULL,
    host         text    NOT NULL,   -- as clients reach it
    port         integer NOT NULL,
    peer_addr    text    NOT NULL,   -- host:port, as other brokers reach it; empty: they do not
    version      text    NOT NULL,
    functions    text[]  NOT NULL,   -- the numbered functions it calls; migrate drops what nobody calls
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    beats        bigint  NOT NULL DEFAULT 0  -- of this instance: by them it knows the database again
);

-- Who coordinates consumer groups: a group belongs to a slot by the hash of its
-- name, a slot to a process. It is that process's as long as its row in brokers
-- has a fresh heartbeat; then whoever takes it raises the epoch, and what the one
-- before still writes under its epoch is refused.
CREATE TABLE group_slots (
    slot  integer PRIMARY KEY CHECK (slot BETWEEN 0 AND 63),
    owner uuid,                       -- brokers.instance; NULL: nobody's
    epoch bigint NOT NULL DEFAULT 0   -- how often it changed hands
) WITH (fillfactor = 50);
INSERT INTO group_slots (slot) SELECT generate_series(0, 63);

-- When a group's coordinator last knew members in it: positions that Kafka
-- clients committed expire after that.
CREATE TABLE group_activity (
    group_name text COLLATE "C" PRIMARY KEY,
    seen_at    timestamptz NOT NULL
) WITH (fillfactor = 50);
