package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strconv"
	"strings"
)

type queueCommands struct {
	List       queueListCommand       `cmd:"" help:"List queues by name."`
	Get        queueGetCommand        `cmd:"" help:"Show a queue and its options."`
	Set        queueSetCommand        `cmd:"" help:"Create a queue, or change its options."`
	Delete     queueDeleteCommand     `cmd:"" help:"Delete a queue with all its messages."`
	Depth      queueDepthCommand      `cmd:"" help:"Show what waits in each partition."`
	Partitions queuePartitionsCommand `cmd:"" help:"List a queue's partitions."`
	Browse     queueBrowseCommand     `cmd:"" help:"Show messages without leasing them."`
}

type queueListCommand struct {
	clientFlags
	Search string `placeholder:"TEXT" help:"Only names that contain it."`
	Limit  int    `short:"n" default:"10000" placeholder:"N" help:"Queues at most (${default})."`
	Skip   int    `default:"0" placeholder:"N" help:"Queues to pass by (${default})."`
}

// shownQueue is a queue as the door answers it.
type shownQueue struct {
	Name       string                     `json:"name"`
	Partitions int                        `json:"partitions"`
	Fixed      bool                       `json:"fixedPartitions"`
	CreatedAt  string                     `json:"createdAt"`
	Namespace  *string                    `json:"namespace"`
	Task       *string                    `json:"task"`
	Window     int                        `json:"dedupWindowSeconds"`
	Options    map[string]json.RawMessage `json:"options"`
}

// Run lists queues.
func (c *queueListCommand) Run(p *process) error {
	q := url.Values{"limit": {strconv.Itoa(c.Limit)}, "offset": {strconv.Itoa(c.Skip)}}
	if c.Search != "" {
		q.Set("search", c.Search)
	}
	answer, err := c.call(p, "GET", endpoint(q, "resources", "queues"), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Queues []shownQueue `json:"queues"`
			Total  int          `json:"total"`
		}
		t := &table{head: []string{"NAMESPACE", "TASK", "PARTITIONS", "WINDOW", "CREATED", "QUEUE"}}
		err := decodeAnswer(answer, &got)
		for _, q := range got.Queues {
			t.add(orDash(q.Namespace), orDash(q.Task), itoa(q.Partitions), itoa(q.Window)+"s", q.CreatedAt, q.Name)
		}
		if shown := c.Skip + len(got.Queues); shown < got.Total {
			t.foot = fmt.Sprintf("%d in all; more: --skip %d", got.Total, shown)
		}
		return t, err
	})
}

type queueGetCommand struct {
	clientFlags
	Queue string `arg:"" help:"Queue to show."`
}

// Run shows a queue.
func (c *queueGetCommand) Run(p *process) error {
	answer, err := c.call(p, "GET", endpoint(nil, "resources", "queues", c.Queue), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var q shownQueue
		if err := decodeAnswer(answer, &q); err != nil {
			return nil, err
		}
		t := &table{head: []string{"PROPERTY", "VALUE"}}
		t.add("name", q.Name)
		t.add("namespace", orDash(q.Namespace))
		t.add("task", orDash(q.Task))
		t.add("partitions", itoa(q.Partitions))
		t.add("fixedPartitions", strconv.FormatBool(q.Fixed))
		t.add("createdAt", q.CreatedAt)
		addOptions(t, q.Options)
		return t, nil
	})
}

func addOptions(t *table, options map[string]json.RawMessage) {
	names := make([]string, 0, len(options))
	for name := range options {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t.add(name, string(options[name]))
	}
}

type queueSetCommand struct {
	clientFlags
	Queue   string   `arg:"" help:"Queue to create or change."`
	Option  []string `arg:"" optional:"" sep:"none" placeholder:"OPTION=VALUE" help:"Options such as dedupWindowSeconds=86400; queen queue get names them. With --replace null is an option's default."`
	Replace bool     `help:"Options that are not named go back to their default; without it they stay."`

	Namespace string `placeholder:"NAME" help:"Label to pop by."`
	Task      string `placeholder:"NAME" help:"Label to pop by."`
}

// Validate refuses what is no option.
func (c *queueSetCommand) Validate() error {
	for _, o := range c.Option {
		name, value, found := strings.Cut(o, "=")
		if !found || name == "" {
			return fmt.Errorf("%q must be OPTION=VALUE, such as dedupWindowSeconds=86400", o)
		}
		if value == "null" && !c.Replace {
			return fmt.Errorf("%s would stay as it is: give it a value, or set all options that are to differ from their default with --replace", o)
		}
	}
	return c.clientFlags.Validate()
}

// Run configures a queue.
func (c *queueSetCommand) Run(p *process) error {
	var body, options object
	body.text("queue", c.Queue)
	body.text("namespace", c.Namespace)
	body.text("task", c.Task)
	if !c.Replace {
		body.text("mode", "merge")
	}
	for _, o := range c.Option {
		name, value, _ := strings.Cut(o, "=")
		if json.Valid([]byte(value)) { // a number, true, null
			options.raw(name, []byte(value))
		} else {
			options.raw(name, quote(value))
		}
	}
	body.raw("options", options.end())
	answer, err := c.call(p, "POST", endpoint(nil, "configure"), body.end(), 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Queue   string                     `json:"queue"`
			Created bool                       `json:"created"`
			Options map[string]json.RawMessage `json:"options"`
			Reset   []string                   `json:"reset"`
		}
		if err := decodeAnswer(answer, &got); err != nil {
			return nil, err
		}
		t := &table{head: []string{"OPTION", "VALUE"}}
		addOptions(t, got.Options)
		switch {
		case got.Created:
			t.foot = "created " + got.Queue
		case len(got.Reset) > 0:
			t.foot = "back to their default: " + strings.Join(got.Reset, ", ")
		}
		return t, nil
	})
}

type queueDeleteCommand struct {
	clientFlags
	Queue string `arg:"" help:"Queue to delete."`
	Yes   bool   `help:"Yes, with all its messages: without it nothing is deleted."`
}

// Run deletes a queue.
func (c *queueDeleteCommand) Run(p *process) error {
	if !c.Yes {
		return &exitError{exitUsage, fmt.Errorf("this deletes %s with all its messages; say so with --yes", strconv.Quote(c.Queue))}
	}
	answer, err := c.call(p, "DELETE", endpoint(nil, "resources", "queues", c.Queue), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		return &table{head: []string{"DELETED"}, rows: [][]string{{c.Queue}}}, nil
	})
}

// partitionPage is a part of a list of partitions.
type partitionPage struct {
	FromPartition int `default:"0" placeholder:"N" help:"From the partition with this number (default: from the first)."`
	Limit         int `short:"n" default:"10000" placeholder:"N" help:"Partitions at most (${default})."`
}

func (c *partitionPage) query() url.Values {
	return url.Values{"fromPartition": {strconv.Itoa(c.FromPartition)}, "limit": {strconv.Itoa(c.Limit)}}
}

// more says where the next page begins, if there is one.
func (c *partitionPage) more(next *int) string {
	if next == nil {
		return ""
	}
	return fmt.Sprintf("more: --from-partition %d", *next)
}

type queueDepthCommand struct {
	clientFlags
	Queue string `arg:"" help:"Queue to measure."`
	Group string `short:"g" placeholder:"NAME" help:"What this group owes; without it, what the group that is furthest behind owes, or all that is stored where there is none."`
	partitionPage
}

// Run shows a queue's depth.
func (c *queueDepthCommand) Run(p *process) error {
	q := c.query()
	if c.Group != "" {
		q.Set("group", c.Group)
	}
	answer, err := c.call(p, "GET", endpoint(q, "resources", "queues", c.Queue, "depth"), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Pending    int64 `json:"pending"`
			Partitions []struct {
				Partition string `json:"partition"`
				Pending   int64  `json:"pending"`
			} `json:"partitions"`
			Next *int `json:"next"`
		}
		t := &table{head: []string{"PENDING", "PARTITION"}}
		err := decodeAnswer(answer, &got)
		for _, d := range got.Partitions {
			t.add(itoa(d.Pending), d.Partition)
		}
		switch more := c.more(got.Next); {
		case more != "":
			t.foot = itoa(got.Pending) + " in these; " + more
		case c.FromPartition > 0:
			t.foot = itoa(got.Pending) + " in these"
		default:
			t.foot = itoa(got.Pending) + " in all"
		}
		return t, err
	})
}

type queuePartitionsCommand struct {
	clientFlags
	Queue string `arg:"" help:"Queue whose partitions to list."`
	partitionPage
}

// Run lists a queue's partitions.
func (c *queuePartitionsCommand) Run(p *process) error {
	answer, err := c.call(p, "GET", endpoint(c.query(), "resources", "queues", c.Queue, "partitions"), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Partitions []struct {
				ID     string `json:"id"`
				Number int    `json:"number"`
				Name   string `json:"name"`
				Start  int64  `json:"logStartOffset"`
				End    int64  `json:"highWatermark"`
			} `json:"partitions"`
			Next *int `json:"next"`
		}
		t := &table{head: []string{"ID", "NUMBER", "START", "END", "PARTITION"}}
		err := decodeAnswer(answer, &got)
		for _, x := range got.Partitions {
			t.add(x.ID, itoa(x.Number), itoa(x.Start), itoa(x.End), x.Name)
		}
		t.foot = c.more(got.Next)
		return t, err
	})
}

type queueBrowseCommand struct {
	clientFlags
	Queue string `arg:"" help:"Queue to look into."`

	Partition string `short:"p" placeholder:"NAME" help:"This partition alone."`

	FromPartition *int64 `placeholder:"N" help:"From the partition with this number (default: from the first)."`

	Offset *int64 `placeholder:"N" help:"From this offset of the partition named, or of the one with that number (default: from the oldest message)."`
	From   string `placeholder:"TIME" help:"From the first message stamped then or later, such as 2026-01-02T03:04:05Z."`
	Group  string `short:"g" placeholder:"NAME" help:"Whose view the status is; without it, the group-less mode's."`
	Status string `short:"s" placeholder:"STATUS" help:"Only messages that are pending, processing or completed."`
	Limit  int    `short:"n" default:"50" placeholder:"N" help:"Messages at most (${default})."`
}

// Validate refuses an offset of no partition.
func (c *queueBrowseCommand) Validate() error {
	if c.Offset != nil && c.Partition == "" && c.FromPartition == nil {
		return errors.New("--offset needs the partition whose offset it is: --partition or --from-partition")
	}
	return c.clientFlags.Validate()
}

// Run shows messages.
func (c *queueBrowseCommand) Run(p *process) error {
	q := url.Values{"queue": {c.Queue}, "limit": {strconv.Itoa(c.Limit)}}
	for name, v := range map[string]string{"partition": c.Partition, "from": c.From, "consumerGroup": c.Group, "status": c.Status} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for name, n := range map[string]*int64{"fromPartition": c.FromPartition, "fromOffset": c.Offset} {
		if n != nil {
			q.Set(name, itoa(*n))
		}
	}
	answer, err := c.call(p, "GET", endpoint(q, "messages"), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Messages []struct {
				poppedMessage
				Status string `json:"status"`
			} `json:"messages"`
			Next *struct {
				FromPartition int64 `json:"fromPartition"`
				FromOffset    int64 `json:"fromOffset"`
			} `json:"next"`
		}
		t := &table{head: []string{"PARTITION", "OFFSET", "STATUS", "CREATED", "TRANSACTION ID", "DATA"}}
		err := decodeAnswer(answer, &got)
		for _, m := range got.Messages {
			t.add(m.Partition, itoa(m.Offset), m.Status, m.CreatedAt, m.idText.cell(), m.valueText.cell())
		}
		if got.Next != nil {
			t.foot = fmt.Sprintf("more: --from-partition %d --offset %d", got.Next.FromPartition, got.Next.FromOffset)
		}
		return t, err
	})
}
