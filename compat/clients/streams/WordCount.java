import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The Kafka Streams row of the client matrix: an at-least-once word count, whose counts are kept
 * in a changelog topic (compacted) behind a repartition topic (trimmed with DeleteRecords).
 */
public final class WordCount {
    static final int PARTITIONS = 3;
    static final int LINES = 300;

    final String brokers;
    final String app = "word-count-" + UUID.randomUUID().toString().substring(0, 8);
    final String input = app + "-lines";
    final String output = app + "-counts";
    final Admin admin;
    final Path state;

    WordCount(String brokers) throws Exception {
        this.brokers = brokers;
        this.admin = Admin.create(Map.of("bootstrap.servers", brokers));
        this.state = Files.createTempDirectory("queen-streams-");
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: WordCount HOST:PORT");
            System.exit(2);
        }
        var w = new WordCount(args[0]);
        var steps = new Steps();
        steps.add("create-topics", w::createTopics);
        steps.add("count", () -> w.count(1));
        steps.add("internal-topics", w::internalTopics);
        steps.add("count-on-after-a-restart", () -> w.count(2));
        steps.add("count-on-without-local-state", () -> {
            w.wipe();
            w.count(3);
        });
        steps.add("delete", w::delete);
        steps.main(Steps.kafkaVersion());
    }

    void createTopics() throws Exception {
        admin.createTopics(List.of(new NewTopic(input, PARTITIONS, (short) 1), new NewTopic(output, PARTITIONS, (short) 1))).all().get();
    }

    Properties config() {
        var p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, app);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        p.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 500);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        p.put("auto.offset.reset", "earliest");
        p.put("session.timeout.ms", 10000);
        return p;
    }

    KafkaStreams streams() {
        var b = new StreamsBuilder();
        b.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return new KafkaStreams(b.build(), config());
    }

    static String line(int i) {
        return "always word" + i % 10 + " turn" + i % 3;
    }

    /** Writes another batch of lines and waits until the counts are those of all batches so far. */
    void count(int round) throws Exception {
        var want = new HashMap<String, Long>();
        for (int i = 0; i < LINES; i++) {
            for (String word : line(i).split(" ")) {
                want.merge(word, (long) round, Long::sum);
            }
        }
        try (var p = new KafkaProducer<>(Map.of("bootstrap.servers", brokers), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < LINES; i++) {
                p.send(new ProducerRecord<>(input, "k" + i, line(i)));
            }
        }
        var streams = streams();
        var failure = new Throwable[1];
        streams.setUncaughtExceptionHandler(e -> {
            failure[0] = e;
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        var counts = new HashMap<String, Long>();
        Map<String, Object> config = Map.of("bootstrap.servers", brokers, "group.id", app + "-reader-" + round, "auto.offset.reset", "earliest");
        try (var c = new KafkaConsumer<>(config, new StringDeserializer(), new LongDeserializer())) {
            c.subscribe(List.of(output));
            Steps.until(() -> "counted " + counts + ", want " + want, () -> {
                if (failure[0] != null) {
                    throw new AssertionError("the application failed", failure[0]);
                }
                c.poll(Duration.ofMillis(200)).forEach(r -> counts.put(r.key(), r.value()));
                return counts.equals(want);
            });
        } finally {
            Steps.expect(streams.close(Duration.ofSeconds(30)), "the application did not stop");
        }
    }

    void internalTopics() throws Exception {
        String changelog = app + "-counts-changelog";
        String repartition = app + "-words-repartition";
        Steps.expect(admin.listTopics().names().get().containsAll(List.of(changelog, repartition)), admin.listTopics().names().get());
        for (var want : Map.of(changelog, "compact", repartition, "delete").entrySet()) {
            var r = new ConfigResource(ConfigResource.Type.TOPIC, want.getKey());
            var policy = admin.describeConfigs(List.of(r)).all().get().get(r).get("cleanup.policy").value();
            Steps.expect(policy.equals(want.getValue()), want.getKey() + " has " + policy);
        }
    }

    void wipe() throws Exception {
        try (var files = Files.walk(state)) {
            for (var f : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(f);
            }
        }
    }

    void delete() throws Exception {
        wipe();
        admin.deleteTopics(List.of(input, output, app + "-counts-changelog", app + "-words-repartition")).all().get();
        // Members of an application do not leave: they are missed after the session timeout.
        Steps.until(() -> "members are still there", () -> admin.describeConsumerGroups(List.of(app)).all().get().get(app).members().isEmpty());
        admin.deleteConsumerGroups(List.of(app)).all().get();
        admin.close(Duration.ofSeconds(10));
    }
}
