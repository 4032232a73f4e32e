"""The confluent-kafka-python (librdkafka) row of the client matrix."""

import os
import sys
import time

import confluent_kafka as ck
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

PARTITIONS, RECORDS, TIMEOUT = 4, 400, 60
RUN = os.urandom(4).hex()
TOPIC, GROUP = f"confluent-{RUN}", f"confluent-group-{RUN}"


def value(i):
    return f"value {i}, long enough to be worth compressing, twice".encode()


def expect(ok, what):
    if not ok:
        raise AssertionError(what)


class Program:
    def __init__(self, broker):
        self.base = {"bootstrap.servers": broker}
        self.admin = AdminClient(self.base)

    # One future a resource: its result, or the broker's error.
    def done(self, futures):
        return {k: f.result(TIMEOUT) for k, f in futures.items()}

    def create(self, topic, partitions=1, **config):
        self.done(self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)]))
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            md = self.admin.list_topics(timeout=TIMEOUT).topics.get(topic)
            if md is not None and len(md.partitions) == partitions:
                return
            time.sleep(0.05)
        raise AssertionError(f"{topic} did not show up with {partitions} partitions")

    def drop(self, topic):
        self.done(self.admin.delete_topics([topic]))

    def create_topic(self):
        self.create(TOPIC, PARTITIONS, **{"retention.ms": "3600000"})
        try:
            self.create(TOPIC, PARTITIONS)
        except KafkaException as e:
            expect(e.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, e)
        else:
            raise AssertionError("made twice")

    # send answers the offsets, in order; every message was acknowledged.
    def send(self, topic, messages, **config):
        p = Producer({**self.base, "acks": "all", "linger.ms": 5, **config})
        stored = {}

        def told(i):
            def on_delivery(err, msg):
                expect(err is None, err)
                stored[i] = (msg.partition(), msg.offset())

            return on_delivery

        for i, m in enumerate(messages):
            p.produce(topic, on_delivery=told(i), **m)
        expect(p.flush(TIMEOUT) == 0, f"{len(stored)} of {len(messages)} messages were acknowledged")
        return [stored[i] for i in range(len(messages))]

    def batch(self, n, partitions=1):
        return [{"key": f"key-{i}", "value": value(i), "partition": i % partitions} for i in range(n)]

    def consumer(self, group, **config):
        return Consumer({**self.base, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False, **config})

    def take(self, c, n):
        got, deadline = [], time.monotonic() + TIMEOUT
        while len(got) < n:
            expect(time.monotonic() < deadline, f"{len(got)} of {n} messages came")
            for m in c.consume(n - len(got), 1.0):
                expect(m.error() is None, m.error())
                got.append(m)
        return got

    def read(self, topic, n):
        c = self.consumer(f"reader-{RUN}")
        c.assign([TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
        try:
            return self.take(c, n)
        finally:
            c.close()

    def produce(self):
        got = self.send(TOPIC, self.batch(RECORDS, PARTITIONS))
        expect(got == [(i % PARTITIONS, i // PARTITIONS) for i in range(RECORDS)], f"stored at {got[:10]}…")

    def shapes(self):
        topic = f"confluent-shapes-{RUN}"
        self.create(topic)
        headers = [("h", None), ("h", b""), ("h", b"x"), ("é", b"\x00\xff")]
        sent = [("k", None, None), (None, "v", None), ("", "", None), ("k", b"\x00\xff\n", headers)]
        self.send(topic, [{"key": k, "value": v, "headers": h, "partition": 0} for k, v, h in sent])
        got = [(m.key(), m.value(), m.headers()) for m in self.read(topic, len(sent))]
        expect(got == [(b"k", None, None), (None, b"v", None), (b"", b"", None), (b"k", b"\x00\xff\n", headers)], got)
        self.drop(topic)

    def round_trip(self, name, **config):
        topic = f"confluent-{name}-{RUN}"
        self.create(topic)
        self.send(topic, self.batch(RECORDS), **config)
        got = [(m.offset(), m.key(), m.value()) for m in self.read(topic, RECORDS)]
        expect(got == [(i, f"key-{i}".encode(), value(i)) for i in range(RECORDS)], "came back changed")
        self.drop(topic)

    # A half as one member, the rest as another.
    def resume(self):
        seen = []
        for _ in range(2):
            c = self.consumer(GROUP)
            c.subscribe([TOPIC])
            seen += [(m.partition(), m.offset()) for m in self.take(c, RECORDS // 2)]
            c.commit(asynchronous=False)
            c.close()
        expect(len(set(seen)) == len(seen) == RECORDS, f"{len(seen)} messages, {len(set(seen))} different")

    def rebalance(self, strategy):
        group = f"confluent-rebalance-{strategy}-{RUN}"
        a = self.consumer(group, **{"partition.assignment.strategy": strategy})
        b = self.consumer(group, **{"partition.assignment.strategy": strategy})
        a.subscribe([TOPIC])
        self.await_shares([a], [PARTITIONS])
        b.subscribe([TOPIC])
        self.await_shares([a, b], [PARTITIONS // 2, PARTITIONS // 2])
        b.close()
        self.await_shares([a], [PARTITIONS])
        a.close()
        self.done(self.admin.delete_consumer_groups([group]))

    def await_shares(self, members, want):
        deadline = time.monotonic() + TIMEOUT
        while True:
            for m in members:
                event = m.poll(0.05)
                expect(event is None or event.error() is None, event and event.error())
            got = [len(m.assignment()) for m in members]
            if got == want:
                return
            expect(time.monotonic() < deadline, f"partitions are shared as {got}, want {want}")

    # The protocol of KIP-848, where the broker assigns.
    def consumer_protocol(self):
        group = f"confluent-848-{RUN}"
        members = [self.consumer(group, **{"group.protocol": "consumer"}) for _ in range(2)]
        for m in members:
            m.subscribe([TOPIC])
        self.await_shares(members, [PARTITIONS // 2, PARTITIONS // 2])
        members[1].close()
        self.await_shares(members[:1], [PARTITIONS])
        members[0].close()

    def describe_groups(self):
        listed = self.admin.list_consumer_groups().result(TIMEOUT)
        expect(not listed.errors and GROUP in [g.group_id for g in listed.valid], f"{GROUP} is not listed: {listed.errors}")
        described = self.done(self.admin.describe_consumer_groups([GROUP]))[GROUP]
        expect(described.state == ck.ConsumerGroupState.EMPTY, described.state)
        parts = [TopicPartition(TOPIC, i) for i in range(PARTITIONS)]
        positions = self.done(self.admin.list_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(GROUP, parts)]))[GROUP]
        got = [p.offset for p in positions.topic_partitions]
        expect(got == [RECORDS // PARTITIONS] * PARTITIONS, got)
        moved = [TopicPartition(TOPIC, 0, 7)]
        self.done(self.admin.alter_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(GROUP, moved)]))
        positions = self.done(self.admin.list_consumer_group_offsets([ck.ConsumerGroupTopicPartitions(GROUP, parts[:1])]))[GROUP]
        expect(positions.topic_partitions[0].offset == 7, positions.topic_partitions)
        self.done(self.admin.delete_consumer_groups([GROUP]))

    def configs(self):
        r = ConfigResource(ResourceType.TOPIC, TOPIC)
        r.add_incremental_config(ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET))
        self.done(self.admin.incremental_alter_configs([r]))
        got = self.done(self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]))
        expect(list(got.values())[0]["retention.ms"].value == "86400000", got)
        bad = ConfigResource(ResourceType.TOPIC, TOPIC)
        bad.add_incremental_config(ConfigEntry("no.such.config", "1", incremental_operation=AlterConfigOpType.SET))
        try:
            self.done(self.admin.incremental_alter_configs([bad]))
        except KafkaException as e:
            expect(e.args[0].code() == KafkaError.INVALID_CONFIG, e)
        else:
            raise AssertionError("an unknown config was taken")

    def cluster(self):
        c = self.admin.describe_cluster().result(TIMEOUT)
        expect(c.cluster_id and c.controller.id in [n.id for n in c.nodes], f"{c.controller} {c.nodes}")
        t = self.admin.describe_topics(ck.TopicCollection([TOPIC]))
        got = self.done(t)[TOPIC]
        expect(len(got.partitions) == PARTITIONS and not got.is_internal, got)

    def offsets(self):
        part = TopicPartition(TOPIC, 0)
        for spec, want in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), RECORDS // PARTITIONS)):
            got = self.done(self.admin.list_offsets({part: spec}))
            expect([r.offset for r in got.values()] == [want], f"{spec}: {got}")
        self.done(self.admin.delete_records([TopicPartition(TOPIC, 0, 10)]))
        got = self.done(self.admin.list_offsets({part: OffsetSpec.earliest()}))
        expect([r.offset for r in got.values()] == [10], got)

    def grow(self):
        self.done(self.admin.create_partitions([NewPartitions(TOPIC, PARTITIONS + 2)]))

    def delete(self):
        self.drop(TOPIC)
        deadline = time.monotonic() + TIMEOUT
        while TOPIC in self.admin.list_topics(timeout=TIMEOUT).topics:
            expect(time.monotonic() < deadline, "it is still listed")
            time.sleep(0.05)


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} HOST:PORT")
    print("version", ck.__version__, "with librdkafka", ck.libversion()[0], flush=True)
    p = Program(sys.argv[1])
    steps = [("create-topic", p.create_topic), ("produce", p.produce), ("keys-headers-nulls", p.shapes)]
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        steps.append((f"codec-{codec}", lambda codec=codec: p.round_trip(codec, **{"compression.type": codec})))
    steps += [
        ("idempotent", lambda: p.round_trip("idempotent", **{"enable.idempotence": True})),
        ("group-commit-resume", p.resume),
        ("rebalance-range", lambda: p.rebalance("range")),
        ("rebalance-cooperative", lambda: p.rebalance("cooperative-sticky")),
        ("describe-groups", p.describe_groups),
        ("configs", p.configs),
        ("cluster", p.cluster),
        ("offsets", p.offsets),
        ("group-consumer-protocol", p.consumer_protocol),
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
            why = str(e).replace("\n", "; ") or repr(e)
            if "UNSUPPORTED_FEATURE" in why:
                print(f"SKIP {name}: the broker does not offer it", flush=True)
                continue
            code = 1
            print(f"FAIL {name} ({time.monotonic() - start:.2f}s): {type(e).__name__}: {why}", flush=True)
    sys.exit(code)


main()
