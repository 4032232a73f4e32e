// Command console-tools is the row of Kafka's own console tools in the client
// matrix (case K01). CLASSPATH names their jars, as a folder with a wildcard.
package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"steps"
	"strings"
)

// classes maps the names of the shell scripts to the classes they start, newest
// first: tools moved between the releases.
var classes = map[string][]string{
	"topics":         {"org.apache.kafka.tools.TopicCommand"},
	"configs":        {"org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"},
	"groups":         {"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"},
	"get-offsets":    {"org.apache.kafka.tools.GetOffsetShell"},
	"producer":       {"org.apache.kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"},
	"consumer":       {"org.apache.kafka.tools.consumer.ConsoleConsumer"},
	"producer-perf":  {"org.apache.kafka.tools.ProducerPerformance"},
	"consumer-perf":  {"org.apache.kafka.tools.ConsumerPerformance"},
	"delete-records": {"org.apache.kafka.tools.DeleteRecordsCommand", "kafka.admin.DeleteRecordsCommand"},
	"api-versions":   {"org.apache.kafka.tools.BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"},
	"log-dirs":       {"org.apache.kafka.tools.LogDirsCommand"},
	"cluster":        {"org.apache.kafka.tools.ClusterTool"},
}

// program is what the steps share.
type program struct {
	broker, topic, group string
	there                map[string]bool // classes on the class path
	version              string
}

func main() {
	p := &program{topic: steps.Name("console"), group: steps.Name("console-readers")}
	if len(os.Args) == 2 {
		p.broker = os.Args[1]
	}
	if err := p.lookAround(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	steps.Main(p.version,
		steps.Step{Name: "topics-create-list-describe", Run: p.topics},
		steps.Step{Name: "producer-consumer", Run: p.produceConsume},
		steps.Step{Name: "get-offsets", Run: p.offsets},
		steps.Step{Name: "groups-list-describe", Run: p.groups},
		steps.Step{Name: "groups-reset-delete", Run: p.resetDelete},
		steps.Step{Name: "configs", Run: p.configs},
		steps.Step{Name: "topics-alter", Run: p.alter},
		steps.Step{Name: "delete-records", Run: p.deleteRecords},
		steps.Step{Name: "perf-tests", Run: p.perf},
		steps.Step{Name: "api-versions", Run: p.apiVersions},
		steps.Step{Name: "cluster-id", Run: p.cluster},
		steps.Step{Name: "log-dirs", Run: p.logDirs},
		steps.Step{Name: "topics-delete", Run: p.remove},
	)
}

// lookAround notes which classes and which version the jars have.
func (p *program) lookAround() error {
	jars, err := filepath.Glob(filepath.Join(filepath.Dir(os.Getenv("CLASSPATH")), "*.jar"))
	if err != nil {
		return err
	}
	p.there = map[string]bool{}
	for _, jar := range jars {
		if m := regexp.MustCompile(`kafka-tools-([0-9.]+)\.jar$`).FindStringSubmatch(jar); m != nil {
			p.version = m[1]
		}
		if !strings.Contains(filepath.Base(jar), "kafka") {
			continue
		}
		z, err := zip.OpenReader(jar)
		if err != nil {
			return err
		}
		for _, f := range z.File {
			if class, ok := strings.CutSuffix(f.Name, ".class"); ok {
				p.there[strings.ReplaceAll(class, "/", ".")] = true
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
	}
	if p.version == "" {
		return fmt.Errorf("no kafka-tools in the class path %q", os.Getenv("CLASSPATH"))
	}
	return nil
}

// tool runs a tool to its end and answers what it wrote to stdout.
func (p *program) tool(ctx context.Context, stdin, name string, args ...string) (string, error) {
	for _, class := range classes[name] {
		if !p.there[class] {
			continue
		}
		java := append([]string{"-XX:TieredStopAtLevel=1", "-Xmx256m", class}, args...)
		cmd := exec.CommandContext(ctx, "java", java...)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &stderr
		out, err := cmd.Output()
		if err != nil {
			said := strings.TrimSpace(stderr.String() + string(out))
			return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, said[max(0, len(said)-500):])
		}
		return string(out), nil
	}
	return "", fmt.Errorf("no class for %s", name)
}

// at runs a tool that takes --bootstrap-server.
func (p *program) at(ctx context.Context, stdin, name string, args ...string) (string, error) {
	return p.tool(ctx, stdin, name, append([]string{"--bootstrap-server", p.broker}, args...)...)
}

// says runs a tool whose output must match a pattern.
func (p *program) says(ctx context.Context, pattern, name string, args ...string) error {
	out, err := p.at(ctx, "", name, args...)
	if err != nil {
		return err
	}
	if !regexp.MustCompile(pattern).MatchString(out) {
		return fmt.Errorf("%s %s said %q, which has no %q", name, strings.Join(args, " "), out, pattern)
	}
	return nil
}

func (p *program) topics(ctx context.Context) error {
	return errors.Join(
		p.says(ctx, "Created topic", "topics", "--create", "--topic", p.topic, "--partitions", "3", "--config", "retention.ms=3600000"),
		p.says(ctx, `(?m)^`+p.topic+`$`, "topics", "--list"),
		p.says(ctx, `PartitionCount: 3\s+ReplicationFactor: 1.*retention\.ms=3600000(?s:.*)Partition: 2\s+Leader: \d+`, "topics", "--describe", "--topic", p.topic),
	)
}

const lines = 2000

func (p *program) produceConsume(ctx context.Context) error {
	var in strings.Builder
	for i := range lines {
		fmt.Fprintf(&in, "h1:one,h2:%d\tkey-%d\tline %d\n", i, i, i)
	}
	topic := p.topic + "-lines"
	// 4.x warns of the old names of these options on stdout.
	reader, formatter := "--reader-property", "--formatter-property"
	if strings.HasPrefix(p.version, "3.") {
		reader, formatter = "--property", "--property"
	}
	if _, err := p.at(ctx, in.String(), "producer", "--topic", topic, "--compression-codec", "lz4",
		reader, "parse.key=true", reader, "parse.headers=true"); err != nil {
		return err
	}
	var out strings.Builder
	for range 2 {
		half, err := p.at(ctx, "", "consumer", "--topic", topic, "--group", p.group, "--from-beginning",
			"--max-messages", fmt.Sprint(lines/2), "--timeout-ms", "60000",
			formatter, "print.key=true", formatter, "print.headers=true")
		if err != nil {
			return err
		}
		out.WriteString(half)
	}
	if out.String() != in.String() {
		return fmt.Errorf("%d bytes in, %d out through two members, one after the other", in.Len(), out.Len())
	}
	return nil
}

func (p *program) offsets(ctx context.Context) error {
	topic := p.topic + "-lines"
	var errs []error
	for at, want := range map[string]string{"-1": topic + ":0:2000\n", "-2": topic + ":0:0\n", "1000": topic + ":0:0\n", "99999999999999": ""} {
		errs = append(errs, p.says(ctx, "^"+want+"$", "get-offsets", "--topic", topic, "--time", at))
	}
	return errors.Join(append(errs, p.says(ctx, "^"+topic+`:0:\d+`+"\n$", "get-offsets", "--topic", topic, "--time", "-3"))...)
}

func (p *program) groups(ctx context.Context) error {
	return errors.Join(
		p.says(ctx, `(?m)^`+p.group+`$`, "groups", "--list"),
		p.says(ctx, p.group+`\s+(Stable|Empty)`, "groups", "--list", "--state"),
		p.says(ctx, p.group+`\s+`+p.topic+`-lines\s+0\s+2000\s+2000\s+0\s`, "groups", "--describe", "--group", p.group),
		p.says(ctx, `Empty`, "groups", "--describe", "--group", p.group, "--state"),
		p.says(ctx, ``, "groups", "--describe", "--group", p.group, "--members"),
	)
}

func (p *program) resetDelete(ctx context.Context) error {
	topic := p.topic + "-lines"
	return errors.Join(
		p.says(ctx, topic+`\s+0\s+5`, "groups", "--reset-offsets", "--group", p.group, "--topic", topic, "--to-offset", "5", "--execute"),
		p.says(ctx, topic+`\s+0\s+5\s+2000\s+1995`, "groups", "--describe", "--group", p.group),
		p.says(ctx, `(?i)successful`, "groups", "--delete-offsets", "--group", p.group, "--topic", topic),
		p.says(ctx, `(?i)successful`, "groups", "--delete", "--group", p.group),
	)
}

func (p *program) configs(ctx context.Context) error {
	topic := []string{"--entity-type", "topics", "--entity-name", p.topic}
	return errors.Join(
		p.says(ctx, `(?i)completed updating config`, "configs", append(topic, "--alter", "--add-config", "retention.ms=86400000,max.message.bytes=2000000")...),
		p.says(ctx, `retention\.ms=86400000`, "configs", append(topic, "--describe")...),
		p.says(ctx, `(?i)completed updating config`, "configs", append(topic, "--alter", "--delete-config", "retention.ms")...),
		p.says(ctx, `(?m)^\s+retention\.ms=604800000`, "configs", append(topic, "--describe", "--all")...),
		p.says(ctx, `num\.partitions=`, "configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"),
	)
}

func (p *program) alter(ctx context.Context) error {
	return errors.Join(
		p.says(ctx, ``, "topics", "--alter", "--topic", p.topic, "--partitions", "5"),
		p.says(ctx, `PartitionCount: 5`, "topics", "--describe", "--topic", p.topic),
	)
}

func (p *program) deleteRecords(ctx context.Context) error {
	f, err := os.CreateTemp("", "delete-records-*.json")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintf(f, `{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":10}]}`, p.topic+"-lines")
	return errors.Join(err, f.Close(),
		p.says(ctx, `low_watermark: 10`, "delete-records", "--offset-json-file", f.Name()),
		p.says(ctx, ":0:10\n$", "get-offsets", "--topic", p.topic+"-lines", "--time", "-2"))
}

func (p *program) perf(ctx context.Context) error {
	topic := p.topic + "-perf"
	out, err := p.tool(ctx, "", "producer-perf", "--topic", topic, "--num-records", "20000", "--record-size", "200",
		"--throughput", "-1", "--producer-props", "bootstrap.servers="+p.broker)
	if err != nil {
		return err
	}
	if !strings.Contains(out, "20000 records sent") {
		return fmt.Errorf("producer-perf-test said %q", out)
	}
	return p.says(ctx, `, 20000, `, "consumer-perf", "--topic", topic, "--messages", "20000", "--timeout", "60000")
}

func (p *program) apiVersions(ctx context.Context) error {
	return p.says(ctx, `Produce\(0\): 0 to \d+.*\n(?s:.*)Metadata\(3\)`, "api-versions")
}

func (p *program) cluster(ctx context.Context) error {
	out, err := p.tool(ctx, "", "cluster", "cluster-id", "--bootstrap-server", p.broker)
	if err == nil && !strings.Contains(out, "Cluster ID: ") {
		err = fmt.Errorf("cluster said %q", out)
	}
	return err
}

// logDirs: an answer, or a clear word that there is none.
func (p *program) logDirs(ctx context.Context) error {
	out, err := p.at(ctx, "", "log-dirs", "--describe", "--topic-list", p.topic)
	if err != nil && strings.Contains(err.Error(), "UnsupportedVersionException") {
		return nil
	}
	if err == nil && !strings.Contains(out, p.topic) {
		err = fmt.Errorf("log-dirs said %q", out)
	}
	return err
}

func (p *program) remove(ctx context.Context) error {
	for _, t := range []string{p.topic, p.topic + "-lines", p.topic + "-perf"} {
		if _, err := p.at(ctx, "", "topics", "--delete", "--topic", t); err != nil {
			return err
		}
	}
	out, err := p.at(ctx, "", "topics", "--list")
	if err == nil && strings.Contains(out, p.topic) {
		err = fmt.Errorf("still listed: %q", out)
	}
	return err
}
