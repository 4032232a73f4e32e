"""The kafka-python row of the client matrix: no librdkafka in it, all its own."""

import os
import sys
import threading
import time

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata

PARTITIONS, RECORDS, TIMEOUT = 4, 400, 60
RUN = os.urandom(4).hex()
TOPIC, GROUP = f"kafka-python-{RUN}", f"kafka-python-group-{RUN}"
START = 1_700_000_000_000


def value(i):
    return f"value {i}, long enough to be worth compressing, twice".encode()


def expect(ok, what):
    if not ok:
        raise AssertionError(what)


def until(what, holds):
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        expect(time.monotonic() < deadline, f"not so after {TIMEOUT} s: {what}")
        time.sleep(0.05)


class Polling:
    """A member of a group that polls by itself."""

    def __init__(self, consumer):
        self.share, self.ended, self.failure = 0, False, None
        self.thread = threading.Thread(target=self.run, args=(consumer,))
        self.thread.start()

    def run(self, consumer):
        try:
            while not self.ended:
                consumer.poll(200)
                self.share = len(consumer.assignment())
            consumer.close()
        except Exception as e:
            self.failure = e

    def end(self):
        self.ended = True
        self.thread.join(TIMEOUT)
        expect(not self.thread.is_alive() and self.failure is None, self.failure or "a member does not end")


class Program:
    def __init__(self, broker):
        self.broker = broker
        self.admin = KafkaAdminClient(bootstrap_servers=broker)

    def create(self, topic, partitions=1, **configs):
        self.admin.create_topics(
            {topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}}, wait_for_metadata=True
        )

    def create_topic(self):
        self.create(TOPIC, PARTITIONS, **{"retention.ms": "-1"})
        try:
            self.create(TOPIC, PARTITIONS)
        except TopicAlreadyExistsError:
            return
        raise AssertionError("made twice")

    # send answers where the messages lie, in order.
    def send(self, topic, messages, **config):
        p = KafkaProducer(bootstrap_servers=self.broker, acks="all", linger_ms=5, **config)
        try:
            sent = [p.send(topic, **m) for m in messages]
            p.flush(TIMEOUT)
            stored = [f.get(TIMEOUT) for f in sent]
        finally:
            p.close()
        return [(m.partition, m.offset) for m in stored]

    def batch(self, n, partitions=1):
        return [
            {"key": f"key-{i}".encode(), "value": value(i), "partition": i % partitions, "timestamp_ms": START + 1000 * i}
            for i in range(n)
        ]

    def consumer(self, group=None, **config):
        return KafkaConsumer(
            bootstrap_servers=self.broker, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **config
        )

    # A leader of a group that has no metadata of the topic yet shares nothing out, and now
    # and then leaves it at that (with 3.0.12, on Apache Kafka as well): it asks first.
    def member(self, group):
        c = self.consumer(group)
        expect(len(c.partitions_for_topic(TOPIC)) == PARTITIONS, "partitions of the topic")
        c.subscribe([TOPIC])
        return c

    def take(self, c, n):
        got = []
        deadline = time.monotonic() + TIMEOUT
        while len(got) < n:
            expect(time.monotonic() < deadline, f"{len(got)} of {n} messages came")
            for messages in c.poll(500, max_records=n - len(got)).values():
                got += messages
        return got

    def read(self, topic, n):
        c = self.consumer()
        c.assign([TopicPartition(topic, 0)])
        c.seek_to_beginning()
        try:
            return self.take(c, n)
        finally:
            c.close()

    def produce(self):
        got = self.send(TOPIC, self.batch(RECORDS, PARTITIONS))
        expect(got == [(i % PARTITIONS, i // PARTITIONS) for i in range(RECORDS)], f"stored at {got[:10]}…")

    def shapes(self):
        topic = f"kafka-python-shapes-{RUN}"
        self.create(topic)
        headers = [("h", b""), ("h", b"x"), ("é", b"\x00\xff")]
        sent = [(b"k", None, []), (None, b"v", []), (b"", b"", []), (b"k", b"\x00\xff\n", headers)]
        self.send(topic, [{"key": k, "value": v, "headers": h, "partition": 0} for k, v, h in sent])
        got = [(m.key, m.value, list(m.headers)) for m in self.read(topic, len(sent))]
        expect(got == sent, got)
        self.admin.delete_topics([topic])

    def round_trip(self, name, **config):
        topic = f"kafka-python-{name}-{RUN}"
        self.create(topic, **{"retention.ms": "-1"})
        self.send(topic, self.batch(RECORDS), **config)
        got = [(m.offset, m.key, m.value, m.timestamp) for m in self.read(topic, RECORDS)]
        expect(got == [(i, f"key-{i}".encode(), value(i), START + 1000 * i) for i in range(RECORDS)], "came back changed")
        self.admin.delete_topics([topic])

    # A half as one member, the rest as another.
    def resume(self):
        seen = []
        for _ in range(2):
            c = self.member(GROUP)
            seen += [(m.partition, m.offset) for m in self.take(c, RECORDS // 2)]
            c.commit()
            c.close()
        expect(len(set(seen)) == len(seen) == RECORDS, f"{len(seen)} messages, {len(set(seen))} different")

    def rebalance(self):
        group = f"kafka-python-rebalance-{RUN}"
        members = [Polling(self.member(group))]

        def share(*want):
            until(f"partitions are shared as {want}", lambda: [m.share for m in members] == list(want))

        try:
            share(PARTITIONS)
            members.append(Polling(self.member(group)))
            share(PARTITIONS // 2, PARTITIONS // 2)
            members.pop().end()
            share(PARTITIONS)
        finally:
            for m in members:
                m.end()
        self.admin.delete_groups([group])

    def groups(self):
        expect(GROUP in [g["group_id"] for g in self.admin.list_groups()], f"{GROUP} is not listed")
        state = self.admin.describe_groups([GROUP])[GROUP]
        expect("empty" in str(state).lower(), state)
        at = {p.partition: o.offset for p, o in self.admin.list_group_offsets({GROUP: None})[GROUP].items()}
        expect(at == {i: RECORDS // PARTITIONS for i in range(PARTITIONS)}, at)
        part = TopicPartition(TOPIC, 0)
        self.admin.alter_group_offsets(GROUP, {part: OffsetAndMetadata(7, "moved", -1)})
        got = self.admin.list_group_offsets({GROUP: [part]})[GROUP][part]
        expect((got.offset, got.metadata) == (7, "moved"), got)
        self.admin.delete_groups([GROUP])

    def configs(self):
        self.admin.alter_configs([ConfigResource("TOPIC", TOPIC, configs={"max.message.bytes": "2000000"})])
        got = self.admin.describe_configs([ConfigResource("TOPIC", TOPIC, configs={"max.message.bytes": None})])
        expect("2000000" in str(got), got)

    # By time, at both ends, and at what DeleteRecords leaves.
    def offsets(self):
        part, n = TopicPartition(TOPIC, 0), RECORDS // PARTITIONS
        c = self.consumer()

        def at(i):
            return c.offsets_for_times({part: START + 1000 * PARTITIONS * i - 1})[part]

        try:
            expect(c.beginning_offsets([part])[part] == 0 and c.end_offsets([part])[part] == n, "the ends are elsewhere")
            for i in (0, 1, n // 2, n - 1):
                found = at(i)
                expect((found.offset, found.timestamp) == (i, START + 1000 * PARTITIONS * i), found)
            expect(at(n) is None, "a time after all is found")
            self.admin.delete_records({part: 10})
            expect(c.beginning_offsets([part])[part] == 10, "the log starts elsewhere")
            for i, want in ((0, 10), (9, 10), (10, 10), (11, 11)):
                expect(at(i).offset == want, f"time of {i}: {at(i)}")
        finally:
            c.close()

    def grow(self):
        self.admin.create_partitions({TOPIC: PARTITIONS + 2})
        until("it has six", lambda: len(self.admin.describe_topics([TOPIC])[0]["partitions"]) == PARTITIONS + 2)

    def delete(self):
        self.admin.delete_topics([TOPIC])
        until("it is gone", lambda: TOPIC not in self.admin.list_topics())


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT")
    print("version", kafka.__version__, flush=True)
    p = Program(sys.argv[1])
    steps = [("create-topic", p.create_topic), ("produce", p.produce), ("keys-headers-nulls", p.shapes)]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        steps.append((f"codec-{codec}", lambda codec=codec: p.round_trip(codec, compression_type=None if codec == "none" else codec)))
    steps += [
        ("not-idempotent", lambda: p.round_trip("not-idempotent", enable_idempotence=False)),
        ("group-commit-resume", p.resume),
        ("rebalance", p.rebalance),
        ("groups", p.groups),
        ("configs", p.configs),
        ("offsets", p.offsets),
        ("grow", p.grow),
        ("delete", p.delete),
    ]
    code = 0
    for name, run in steps:
        start = time.monotonic()
        try:
            run()
            print(f"PASS {name} ({time.monotonic() - start:.2f}s)", flush=True)
        except Exception as e:  # whatever it is, it is the step's failure
            code = 1
            why = str(e).replace("\n", "; ") or repr(e)
            print(f"FAIL {name} ({time.monotonic() - start:.2f}s): {type(e).__name__}: {why}", flush=True)
    sys.exit(code)


main()
