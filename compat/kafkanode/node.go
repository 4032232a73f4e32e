package kafkanode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says how to run a node. The zero value is good.
type Config struct {
	// Properties are appended to server.properties, so they win.
	Properties map[string]string
	// HeapMax is Java's -Xmx; empty means 512m.
	HeapMax string
	// Java are more arguments of its Java.
	Java []string
	// StartTimeout bounds the wait for the node to answer; 0 means 5 min. One that
	// ended is not waited for.
	StartTimeout time.Duration
	// StopTimeout bounds a clean stop, after which the process is killed; 0 means 20 s.
	StopTimeout time.Duration
	// Log takes what the process prints; nil drops it.
	Log io.Writer
}

func (c Config) withDefaults() Config {
	if c.HeapMax == "" {
		c.HeapMax = "512m"
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 5 * time.Minute
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = 20 * time.Second
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	return c
}

// AsShipped runs a node as Apache Kafka's own start script and configuration do,
// for whoever measures it; what it logs is dropped.
func AsShipped() Config {
	return Config{
		HeapMax: "1G",
		Java: []string{
			"-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
			"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15",
		},
		Properties: map[string]string{"num.network.threads": "3", "num.io.threads": "8", "log.cleaner.dedupe.buffer.size": "134217728"},
	}
}

// Node is a running Apache Kafka.
type Node struct {
	// Addr is where clients connect, host:port.
	Addr string

	cfg    Config
	dir    string
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process is gone
}

// defaults make one small node: every internal topic has one replica and few
// partitions, and groups do not wait for members that will never come.
const defaults = `process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
num.network.threads=2
num.io.threads=4
num.partitions=1
default.replication.factor=1
auto.create.topics.enable=true
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
`

// Start runs a node on free loopback ports and returns once it answers. Its
// data folder is temporary and removed by Stop.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	cfg = cfg.withDefaults()
	classpath, err := Jars(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kafkanode-")
	if err != nil {
		return nil, fmt.Errorf("kafka node: %w", err)
	}
	n := &Node{cfg: cfg, dir: dir, exited: make(chan struct{})}
	if err := n.start(ctx, classpath); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, classpath string) error {
	props, err := n.writeProperties()
	if err != nil {
		return fmt.Errorf("kafka node: %w", err)
	}
	format := exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-cp", classpath,
		"kafka.tools.StorageTool", "format", "-t", "cXVlZW5tcS1jb21wYXQtMQ", "-c", props)
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("kafka node: format storage: %w\n%s", err, out)
	}
	var said bytes.Buffer
	n.cmd = exec.Command("java", slices.Concat([]string{"-Xmx" + n.cfg.HeapMax}, n.cfg.Java, []string{"-cp", classpath, "kafka.Kafka", props})...)
	n.cmd.Stdout = io.MultiWriter(&said, n.cfg.Log)
	n.cmd.Stderr = n.cmd.Stdout
	// Its own process group: an interrupt at the terminal reaches us, and we
	// stop it in order.
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("kafka node: %w", err)
	}
	go func() {
		_ = n.cmd.Wait() // the exit state stays in n.cmd.ProcessState
		close(n.exited)
	}()
	if err := n.awaitAnswer(ctx); err != nil {
		_ = n.kill()
		return fmt.Errorf("kafka node: %w\n%s", err, said.Bytes())
	}
	return nil
}

func (n *Node) writeProperties() (string, error) {
	client, controller, err := freePorts()
	if err != nil {
		return "", err
	}
	n.Addr = fmt.Sprintf("127.0.0.1:%d", client)
	var b bytes.Buffer
	b.WriteString(defaults)
	fmt.Fprintf(&b, "listeners=PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d\n", n.Addr, controller)
	fmt.Fprintf(&b, "advertised.listeners=PLAINTEXT://%s\n", n.Addr)
	fmt.Fprintf(&b, "controller.quorum.voters=1@127.0.0.1:%d\n", controller)
	fmt.Fprintf(&b, "log.dirs=%s\n", filepath.Join(n.dir, "data"))
	for k, v := range n.cfg.Properties {
		fmt.Fprintf(&b, "%s=%s\n", k, v)
	}
	path := filepath.Join(n.dir, "server.properties")
	return path, os.WriteFile(path, b.Bytes(), 0o600)
}

// awaitAnswer asks until the node lists itself as a broker: a controller that
// answers before the broker has registered would name none.
func (n *Node) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.StartTimeout)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := cl.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-n.exited:
			return fmt.Errorf("ended before it was ready: %s", n.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w", n.cfg.StartTimeout, err)
		case <-tick.C:
		}
	}
}

// Exited is closed when the process is gone, whoever ended it.
func (n *Node) Exited() <-chan struct{} { return n.exited }

// Stop ends the node, cleanly if it will, and removes its data.
func (n *Node) Stop() error {
	var err error
	if n.cmd != nil && n.cmd.Process != nil {
		_ = n.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
		select {
		case <-n.exited:
		case <-time.After(n.cfg.StopTimeout):
			err = fmt.Errorf("kafka node: killed, it had not stopped after %s", n.cfg.StopTimeout)
			_ = n.kill()
		}
	}
	return errors.Join(err, os.RemoveAll(n.dir))
}

func (n *Node) kill() error {
	err := n.cmd.Process.Kill()
	<-n.exited
	return err
}

// freePorts asks the kernel for two ports at once, so that they differ.
func freePorts() (client, controller int, err error) {
	a, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	b, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer b.Close()
	return a.Addr().(*net.TCPAddr).Port, b.Addr().(*net.TCPAddr).Port, nil
}
