package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

type groupCommands struct {
	List   groupListCommand   `cmd:"" help:"List consumer groups and what they owe."`
	Get    groupGetCommand    `cmd:"" help:"Show a group, partition by partition."`
	Seek   groupSeekCommand   `cmd:"" help:"Move a group, also backwards."`
	Delete groupDeleteCommand `cmd:"" help:"Delete a group's positions."`
}

type groupListCommand struct {
	clientFlags
	Limit int `short:"n" default:"10000" placeholder:"N" help:"Lines at most (${default})."`
	Skip  int `default:"0" placeholder:"N" help:"Lines to pass by (${default})."`
}

// Run lists groups.
func (c *groupListCommand) Run(p *process) error {
	answer, err := c.call(p, "GET", endpoint(url.Values{"limit": {strconv.Itoa(c.Limit)}, "offset": {strconv.Itoa(c.Skip)}}, "consumer-groups"), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got []struct {
			Name    string `json:"name"`
			Queue   string `json:"queueName"`
			Lag     int64  `json:"totalLag"`
			Behind  int    `json:"partitionsWithLag"`
			Leases  int    `json:"leases"`
			Seconds int64  `json:"maxTimeLag"`
		}
		t := &table{head: []string{"GROUP", "LAG", "OLDEST", "PARTITIONS BEHIND", "LEASES", "QUEUE"}}
		err := decodeAnswer(answer, &got)
		for _, g := range got {
			t.add(g.Name, itoa(g.Lag), itoa(g.Seconds)+"s", itoa(g.Behind), itoa(g.Leases), g.Queue)
		}
		if len(got) > 0 && len(got) == c.Limit {
			t.foot = fmt.Sprintf("perhaps more: --skip %d", c.Skip+len(got))
		}
		return t, err
	})
}

type groupGetCommand struct {
	clientFlags
	Group string `arg:"" help:"Group to show; __QUEUE_MODE__ is the group-less mode."`
}

// Run shows a group: all of it as a table, its first page as JSON.
func (c *groupGetCommand) Run(p *process) error {
	answer, err := c.page(p, nil)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		t := &table{head: []string{"QUEUE", "OFFSET", "END", "LAG", "OLDEST", "LEASED UNTIL", "PARTITION"}}
		for {
			next, err := addPositions(t, answer)
			if next == nil || err != nil {
				return t, err
			}
			if answer, err = c.page(p, next); err != nil {
				return nil, err
			}
		}
	})
}

// positionsPlace is where a page of a group's positions begins.
type positionsPlace struct {
	Queue     string `json:"fromQueue"`
	Partition int64  `json:"fromPartition"`
}

func (c *groupGetCommand) page(p *process, from *positionsPlace) ([]byte, error) {
	query := url.Values{}
	if from != nil {
		query.Set("fromQueue", from.Queue)
		query.Set("fromPartition", itoa(from.Partition))
	}
	return c.call(p, "GET", endpoint(query, "consumer-groups", c.Group), nil, 0)
}

// addPositions adds a page to the table, and says where the next one begins.
func addPositions(t *table, answer []byte) (*positionsPlace, error) {
	var got struct {
		Queues []struct {
			Queue      string `json:"queueName"`
			Partitions []struct {
				Partition string  `json:"partition"`
				Offset    *int64  `json:"offset"`
				Lag       int64   `json:"lag"`
				Seconds   int64   `json:"timeLag"`
				End       int64   `json:"highWatermark"`
				Lease     *string `json:"leaseExpiresAt"`
			} `json:"partitions"`
		} `json:"queues"`
		Next *positionsPlace `json:"next"`
	}
	err := decodeAnswer(answer, &got)
	for _, q := range got.Queues {
		for _, x := range q.Partitions {
			offset := "-"
			if x.Offset != nil {
				offset = itoa(*x.Offset)
			}
			t.add(q.Queue, offset, itoa(x.End), itoa(x.Lag), itoa(x.Seconds)+"s", orDash(x.Lease), x.Partition)
		}
	}
	return got.Next, err
}

type groupSeekCommand struct {
	clientFlags
	Group string `arg:"" help:"Group to move; __QUEUE_MODE__ is the group-less mode."`
	Queue string `arg:"" help:"Queue to move it in."`

	ToEnd     bool   `help:"To the end: only what comes is read."`
	ToStart   bool   `help:"To the oldest message."`
	ToTime    string `placeholder:"TIME" help:"To the first message stamped then or later, such as 2026-01-02T03:04:05Z."`
	ToOffset  *int64 `placeholder:"N" help:"To this offset of the partition named."`
	Partition string `short:"p" placeholder:"NAME" help:"In this partition alone."`
}

// Validate asks for exactly one place to go to.
func (c *groupSeekCommand) Validate() error {
	targets := 0
	for _, is := range []bool{c.ToEnd, c.ToStart, c.ToTime != "", c.ToOffset != nil} {
		if is {
			targets++
		}
	}
	switch {
	case targets != 1:
		return errors.New("say where to: one of --to-end, --to-start, --to-time and --to-offset")
	case c.ToOffset != nil && c.Partition == "":
		return errors.New("--to-offset needs the --partition whose offset it is")
	}
	return c.clientFlags.Validate()
}

// Run moves a group.
func (c *groupSeekCommand) Run(p *process) error {
	var body object
	switch {
	case c.ToEnd:
		body.raw("toEnd", []byte("true"))
	case c.ToStart:
		body.raw("toStart", []byte("true"))
	case c.ToTime != "":
		body.text("timestamp", c.ToTime)
	default:
		body.raw("offset", []byte(itoa(*c.ToOffset)))
	}
	body.text("partition", c.Partition)
	answer, err := c.call(p, "POST", endpoint(nil, "consumer-groups", c.Group, "queues", c.Queue, "seek"), body.end(), 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Partitions []struct {
				Partition string `json:"partition"`
				Offset    int64  `json:"offset"`
			} `json:"partitions"`
		}
		t := &table{head: []string{"OFFSET", "PARTITION"}}
		err := decodeAnswer(answer, &got)
		for _, x := range got.Partitions {
			t.add(itoa(x.Offset), x.Partition)
		}
		return t, err
	})
}

type groupDeleteCommand struct {
	clientFlags
	Group            string `arg:"" help:"Group to delete; __QUEUE_MODE__ is the group-less mode."`
	Queue            string `short:"q" placeholder:"NAME" help:"Only its positions in this queue."`
	KeepSubscription bool   `help:"Keep where the group subscribed from: it starts there again."`
	Yes              bool   `help:"Yes: without it nothing is deleted."`
}

// Run deletes a group's positions.
func (c *groupDeleteCommand) Run(p *process) error {
	if !c.Yes {
		return &exitError{exitUsage, fmt.Errorf("this deletes where %s stands; say so with --yes", strconv.Quote(c.Group))}
	}
	segments := []string{"consumer-groups", c.Group}
	if c.Queue != "" {
		segments = append(segments, "queues", c.Queue)
	}
	q := url.Values{"deleteMetadata": {strconv.FormatBool(!c.KeepSubscription)}}
	answer, err := c.call(p, "DELETE", endpoint(q, segments...), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		return &table{head: []string{"DELETED"}, rows: [][]string{{c.Group}}}, nil
	})
}
