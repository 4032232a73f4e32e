import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java rows of the client matrix: kafka-clients of 3.9 and 4.x. */
public final class Matrix {
    static final int PARTITIONS = 4;
    static final int RECORDS = 400;

    final String brokers;
    final String run = UUID.randomUUID().toString().substring(0, 8);
    final String topic = "java-" + run;
    final String group = "java-group-" + run;
    final Admin admin;

    Matrix(String brokers) {
        this.brokers = brokers;
        this.admin = Admin.create(Map.of("bootstrap.servers", brokers));
    }

    public static void main(String[] args) {
        if (args.length != 1) {
            System.err.println("usage: Matrix HOST:PORT");
            System.exit(2);
        }
        var m = new Matrix(args[0]);
        var steps = new Steps();
        steps.add("create-topic", m::createTopic);
        steps.add("produce", m::produce);
        steps.add("keys-headers-nulls", m::shapes);
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            steps.add("codec-" + codec, () -> m.roundTrip(codec, Map.of("compression.type", codec)));
        }
        steps.add("not-idempotent", () -> m.roundTrip("plain", Map.of("enable.idempotence", "false", "acks", "1")));
        steps.add("fire-and-forget", m::forget);
        for (String protocol : List.of("classic", "consumer")) {
            steps.add("group-" + protocol, () -> {
                m.resume(protocol);
                m.describeGroups(protocol);
            });
            steps.add("rebalance-" + protocol, () -> m.rebalance(protocol));
        }
        steps.add("static-member", m::staticMember);
        steps.add("cluster", m::cluster);
        steps.add("configs", m::configs);
        steps.add("offsets", m::offsets);
        steps.add("grow-and-trim", m::growAndTrim);
        steps.add("delete", m::delete);
        steps.main(Steps.kafkaVersion());
    }

    static byte[] bytes(String s) {
        return s.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] value(int i) {
        return bytes("value " + i + ", long enough to be worth compressing, twice");
    }

    void create(String name, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(Map.of("retention.ms", "3600000")))).all().get();
        await(name, partitions);
    }

    void await(String name, int partitions) throws Exception {
        Steps.until(() -> name + " has no " + partitions + " partitions", () -> {
            try {
                return admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().stream()
                    .filter(p -> p.leader() != null).count() == partitions;
            } catch (ExecutionException e) {
                return false;
            }
        });
    }

    void drop(String name) throws Exception {
        admin.deleteTopics(List.of(name)).all().get();
    }

    void createTopic() throws Exception {
        create(topic, PARTITIONS);
        try {
            create(topic, PARTITIONS);
            throw new AssertionError("made twice");
        } catch (ExecutionException e) {
            Steps.expect(e.getCause() instanceof TopicExistsException, e.getCause());
        }
        var checked = admin.createTopics(List.of(new NewTopic(topic + "-checked", 3, (short) 1)),
            new org.apache.kafka.clients.admin.CreateTopicsOptions().validateOnly(true));
        Steps.expect(checked.numPartitions(topic + "-checked").get() == 3, "not validated");
    }

    KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        var config = new HashMap<String, Object>(Map.of("bootstrap.servers", brokers, "linger.ms", "5", "acks", "all"));
        config.putAll(more);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Sends records and answers where they were stored, in order. */
    List<RecordMetadata> send(List<ProducerRecord<byte[], byte[]>> records, Map<String, Object> more) throws Exception {
        try (var p = producer(more)) {
            var futures = new ArrayList<Future<RecordMetadata>>();
            for (var r : records) {
                futures.add(p.send(r));
            }
            var stored = new ArrayList<RecordMetadata>();
            for (var f : futures) {
                stored.add(f.get());
            }
            return stored;
        }
    }

    static List<ProducerRecord<byte[], byte[]>> batch(String topic, int partitions) {
        var records = new ArrayList<ProducerRecord<byte[], byte[]>>();
        for (int i = 0; i < RECORDS; i++) {
            records.add(new ProducerRecord<>(topic, i % partitions, bytes("key-" + i), value(i)));
        }
        return records;
    }

    KafkaConsumer<byte[], byte[]> consumer(String group, String protocol, Map<String, Object> more) {
        var config = new HashMap<String, Object>(Map.of("bootstrap.servers", brokers, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        if (group != null) {
            config.put("group.id", group);
            config.put("group.protocol", protocol);
        }
        config.putAll(more);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static List<ConsumerRecord<byte[], byte[]>> take(KafkaConsumer<byte[], byte[]> c, int n) throws Exception {
        var got = new ArrayList<ConsumerRecord<byte[], byte[]>>();
        Steps.until(() -> got.size() + " of " + n + " records came", () -> {
            c.poll(Duration.ofMillis(200)).forEach(got::add);
            return got.size() >= n;
        });
        return got;
    }

    List<ConsumerRecord<byte[], byte[]>> read(String name, int n) throws Exception {
        try (var c = consumer(null, null, Map.of())) {
            var p = List.of(new TopicPartition(name, 0));
            c.assign(p);
            c.seekToBeginning(p);
            return take(c, n);
        }
    }

    void produce() throws Exception {
        var stored = send(batch(topic, PARTITIONS), Map.of());
        for (int i = 0; i < RECORDS; i++) {
            Steps.expect(stored.get(i).offset() == i / PARTITIONS, "record " + i + " was stored at " + stored.get(i));
        }
    }

    void shapes() throws Exception {
        String name = "java-shapes-" + run;
        create(name, 1);
        var full = new ProducerRecord<byte[], byte[]>(name, 0, bytes("k"), new byte[] {0, -1, 10});
        full.headers().add("h", null).add("h", new byte[0]).add("h", bytes("x")).add("é", new byte[] {0, -1});
        send(List.of(new ProducerRecord<>(name, 0, bytes("k"), null), new ProducerRecord<>(name, 0, null, bytes("v")),
            new ProducerRecord<>(name, 0, new byte[0], new byte[0]), full), Map.of());
        var got = read(name, 4);
        Steps.expect(got.get(0).value() == null && got.get(1).key() == null, "nulls came back as something else");
        Steps.expect(got.get(2).key().length == 0 && got.get(2).value().length == 0, "empty came back as something else");
        Steps.expect(Arrays.equals(got.get(3).value(), full.value()), "bytes came back changed");
        Header[] back = got.get(3).headers().toArray();
        Header[] sent = full.headers().toArray();
        Steps.expect(back.length == sent.length, back.length + " headers");
        for (int i = 0; i < sent.length; i++) {
            Steps.expect(back[i].key().equals(sent[i].key()) && Arrays.equals(back[i].value(), sent[i].value()), "header " + back[i]);
        }
        drop(name);
    }

    void roundTrip(String what, Map<String, Object> more) throws Exception {
        String name = "java-" + what + "-" + run;
        create(name, 1);
        send(batch(name, 1), more);
        var got = read(name, RECORDS);
        for (int i = 0; i < RECORDS; i++) {
            var r = got.get(i);
            Steps.expect(r.offset() == i && Arrays.equals(r.value(), value(i)) && Arrays.equals(r.key(), bytes("key-" + i)), "record " + i + " is " + r);
        }
        drop(name);
    }

    void forget() throws Exception {
        String name = "java-forget-" + run;
        create(name, 1);
        send(batch(name, 1), Map.of("acks", "0", "enable.idempotence", "false"));
        Steps.expect(read(name, RECORDS).size() == RECORDS, "not all came");
        drop(name);
    }

    /** A half as one member, the rest as another. */
    void resume(String protocol) throws Exception {
        var seen = new HashSet<String>();
        int n = 0;
        for (int half = 0; half < 2; half++) {
            try (var c = consumer(group + protocol, protocol, Map.of("max.poll.records", "50"))) {
                c.subscribe(List.of(topic));
                for (var r : take(c, RECORDS / 2)) {
                    seen.add(r.partition() + "/" + r.offset());
                    n++;
                }
                c.commitSync();
            }
        }
        Steps.expect(n == RECORDS && seen.size() == RECORDS, n + " records, " + seen.size() + " different");
    }

    void rebalance(String protocol) throws Exception {
        String id = "java-rebalance-" + protocol + "-" + run;
        var strategy = protocol.equals("classic")
            ? Map.<String, Object>of("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor")
            : Map.<String, Object>of("group.remote.assignor", "range");
        try (var a = consumer(id, protocol, strategy)) {
            a.subscribe(List.of(topic));
            shared(List.of(a), List.of(PARTITIONS));
            try (var b = consumer(id, protocol, strategy)) {
                b.subscribe(List.of(topic));
                shared(List.of(a, b), List.of(PARTITIONS / 2, PARTITIONS / 2));
            }
            shared(List.of(a), List.of(PARTITIONS));
            var described = admin.describeConsumerGroups(List.of(id)).all().get().get(id);
            Steps.expect(described.members().size() == 1, described);
        }
        Steps.until(() -> "the group still has members", () -> admin.describeConsumerGroups(List.of(id)).all().get().get(id).members().isEmpty());
        admin.deleteConsumerGroups(List.of(id)).all().get();
    }

    static void shared(List<KafkaConsumer<byte[], byte[]>> members, List<Integer> want) throws Exception {
        var got = new ArrayList<Integer>();
        Steps.until(() -> "partitions are shared as " + got + ", want " + want, () -> {
            got.clear();
            for (var m : members) {
                m.poll(Duration.ofMillis(50));
            }
            Set<TopicPartition> all = new HashSet<>();
            for (var m : members) {
                got.add(m.assignment().size());
                all.addAll(m.assignment());
            }
            return got.equals(want) && all.size() == PARTITIONS;
        });
    }

    void describeGroups(String protocol) throws Exception {
        String id = group + protocol;
        Steps.expect(admin.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals(id)), id + " is not listed");
        var described = admin.describeConsumerGroups(List.of(id)).all().get().get(id);
        Steps.expect(described.state().toString().equals("Empty"), described);
        var positions = admin.listConsumerGroupOffsets(id).partitionsToOffsetAndMetadata().get();
        Steps.expect(positions.size() == PARTITIONS, positions);
        for (var p : positions.values()) {
            Steps.expect(p.offset() == RECORDS / PARTITIONS, positions);
        }
        var first = new TopicPartition(topic, 0);
        admin.alterConsumerGroupOffsets(id, Map.of(first, new OffsetAndMetadata(7, "moved"))).all().get();
        var moved = admin.listConsumerGroupOffsets(id).partitionsToOffsetAndMetadata().get().get(first);
        Steps.expect(moved.offset() == 7 && moved.metadata().equals("moved"), moved);
        admin.deleteConsumerGroupOffsets(id, Set.of(first)).all().get();
        Steps.expect(admin.listConsumerGroupOffsets(id).partitionsToOffsetAndMetadata().get().get(first) == null, "still there");
        admin.deleteConsumerGroups(List.of(id)).all().get();
    }

    /** A static member that comes back in time gets its partitions without a rebalance. */
    void staticMember() throws Exception {
        String id = "java-static-" + run;
        Map<String, Object> one = Map.of("group.instance.id", "one", "session.timeout.ms", "30000");
        try (var other = consumer(id, "classic", Map.of("group.instance.id", "two", "session.timeout.ms", "30000"))) {
            var c = consumer(id, "classic", one);
            c.subscribe(List.of(topic));
            other.subscribe(List.of(topic));
            shared(List.of(c, other), List.of(PARTITIONS / 2, PARTITIONS / 2));
            var before = Set.copyOf(c.assignment());
            int generation = c.groupMetadata().generationId();
            c.close();
            try (var back = consumer(id, "classic", one)) {
                back.subscribe(List.of(topic));
                shared(List.of(back, other), List.of(PARTITIONS / 2, PARTITIONS / 2));
                Steps.expect(back.assignment().equals(before), back.assignment() + " after " + before);
                Steps.expect(back.groupMetadata().generationId() == generation, "generation " + back.groupMetadata().generationId() + " after " + generation);
            }
        }
        admin.removeMembersFromConsumerGroup(id, new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions()).all().get();
        Steps.expect(admin.describeConsumerGroups(List.of(id)).all().get().get(id).members().isEmpty(), "members were not removed");
    }

    void cluster() throws Exception {
        var c = admin.describeCluster();
        Collection<org.apache.kafka.common.Node> nodes = c.nodes().get();
        Steps.expect(c.clusterId().get() != null && nodes.contains(c.controller().get()), nodes);
        var id = String.valueOf(nodes.iterator().next().id());
        var broker = new ConfigResource(ConfigResource.Type.BROKER, id);
        Steps.expect(!admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().isEmpty(), "no broker configs");
        Steps.expect(admin.listTopics().names().get().contains(topic), topic + " is not listed");
    }

    void configs() throws Exception {
        var r = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "86400000"), AlterConfigOp.OpType.SET)))).all().get();
        var described = admin.describeConfigs(List.of(r),
            new org.apache.kafka.clients.admin.DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(r);
        var e = described.get("retention.ms");
        Steps.expect(e.value().equals("86400000") && e.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, e);
        Steps.expect(!e.synonyms().isEmpty() && e.documentation() != null, e);
        admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE)))).all().get();
        Steps.expect(admin.describeConfigs(List.of(r)).all().get().get(r).get("retention.ms").isDefault(), "not back at the default");
        try {
            admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry("no.such", "1"), AlterConfigOp.OpType.SET)))).all().get();
            throw new AssertionError("an unknown config was taken");
        } catch (ExecutionException x) {
            Steps.expect(x.getCause() instanceof InvalidConfigurationException, x.getCause());
        }
    }

    void offsets() throws Exception {
        var p = new TopicPartition(topic, 0);
        var want = Map.of(OffsetSpec.earliest(), 0L, OffsetSpec.latest(), (long) RECORDS / PARTITIONS, OffsetSpec.forTimestamp(1), 0L);
        for (var e : want.entrySet()) {
            long got = admin.listOffsets(Map.of(p, e.getKey())).partitionResult(p).get().offset();
            Steps.expect(got == e.getValue(), e.getKey() + " is " + got);
        }
        var newest = admin.listOffsets(Map.of(p, OffsetSpec.maxTimestamp())).partitionResult(p).get();
        Steps.expect(newest.offset() >= 0 && newest.timestamp() > 0, newest);
        try (var c = consumer(null, null, Map.of())) {
            Steps.expect(c.offsetsForTimes(Map.of(p, 1L)).get(p).offset() == 0, "offsetsForTimes");
            Steps.expect(c.offsetsForTimes(Map.of(p, Long.MAX_VALUE)).get(p) == null, "offsetsForTimes of the future");
            Steps.expect(c.endOffsets(List.of(p)).get(p) == RECORDS / PARTITIONS, "endOffsets");
        }
    }

    void growAndTrim() throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(PARTITIONS + 2))).all().get();
        await(topic, PARTITIONS + 2);
        var p = new TopicPartition(topic, 0);
        long low = admin.deleteRecords(Map.of(p, RecordsToDelete.beforeOffset(10))).lowWatermarks().get(p).get().lowWatermark();
        Steps.expect(low == 10, "low watermark " + low);
        Steps.expect(admin.listOffsets(Map.of(p, OffsetSpec.earliest())).partitionResult(p).get().offset() == 10, "log start");
    }

    void delete() throws Exception {
        drop(topic);
        Steps.until(() -> "still listed", () -> !admin.listTopics().names().get().contains(topic));
        admin.close(Duration.ofSeconds(10));
    }
}
