package kafkanode

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// tools maps the names of Kafka's shell scripts to the classes they start.
var tools = map[string]string{
	"kafka-topics":              "org.apache.kafka.tools.TopicCommand",
	"kafka-console-producer":    "org.apache.kafka.tools.ConsoleProducer",
	"kafka-console-consumer":    "org.apache.kafka.tools.consumer.ConsoleConsumer",
	"kafka-consumer-groups":     "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
	"kafka-get-offsets":         "org.apache.kafka.tools.GetOffsetShell",
	"kafka-configs":             "org.apache.kafka.tools.ConfigCommand",
	"kafka-delete-records":      "org.apache.kafka.tools.DeleteRecordsCommand",
	"kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
	"kafka-producer-perf-test":  "org.apache.kafka.tools.ProducerPerformance",
	"kafka-consumer-perf-test":  "org.apache.kafka.tools.ConsumerPerformance",
	"kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
	"kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
	"kafka-cluster":             "org.apache.kafka.tools.ClusterTool",
	"kafka-log-dirs":            "org.apache.kafka.tools.LogDirsCommand",
	"kafka-transactions":        "org.apache.kafka.tools.TransactionsCommand",
	"kafka-leader-election":     "org.apache.kafka.tools.LeaderElectionCommand",
	"kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
	"kafka-features":            "org.apache.kafka.tools.FeatureCommand",
	"kafka-share-groups":        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
}

// Tool prepares one of Kafka's console tools, named like its shell script. The
// caller runs it; ending ctx ends it.
func Tool(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	class, ok := tools[name]
	if !ok {
		return nil, fmt.Errorf("kafka tool %q is not one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(tools)), ", "))
	}
	classpath, err := Jars(ctx)
	if err != nil {
		return nil, err
	}
	// A tool lives for seconds: compiling less makes it start in half the time.
	java := append([]string{"-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classpath, class}, args...)
	return exec.CommandContext(ctx, "java", java...), nil
}
