package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

type popCommand struct {
	clientFlags

	Queue string `arg:"" help:"Queue to pop from."`

	Partition string         `short:"p" placeholder:"NAME" help:"Pop from this partition alone."`
	Group     string         `short:"g" placeholder:"NAME" help:"Consumer group; without one, the group-less mode."`
	Batch     int            `short:"n" default:"1" placeholder:"N" help:"Messages at most (${default})."`
	Wait      time.Duration  `short:"w" default:"0s" placeholder:"TIME" help:"How long to wait for a first message (${default})."`
	Lease     *time.Duration `placeholder:"TIME" help:"How long the messages are yours: acknowledge them before (default: the broker's)."`
	AutoAck   bool           `help:"Complete the messages by popping them; there is nothing to acknowledge then."`
	New       bool           `help:"A group that was never here starts at the end, not at the oldest message."`
}

// Validate refuses what cannot be meant.
func (c *popCommand) Validate() error {
	switch {
	case c.Batch < 1:
		return fmt.Errorf("--batch is %d, must be at least 1", c.Batch)
	case c.Wait < 0:
		return errors.New("--wait must not be negative")
	case c.Lease != nil && (*c.Lease < time.Second || *c.Lease%time.Second != 0):
		return fmt.Errorf("--lease is %s, must be whole seconds, at least 1s", *c.Lease)
	}
	return c.clientFlags.Validate()
}

// popped is a leased batch.
type popped struct {
	LeaseID       *string         `json:"leaseId"`
	ConsumerGroup string          `json:"consumerGroup"`
	Messages      []poppedMessage `json:"messages"`
}

type poppedMessage struct {
	idText
	valueText
	Partition   string  `json:"partition"`
	PartitionID string  `json:"partitionId"`
	LeaseID     *string `json:"leaseId"`
	Group       string  `json:"consumerGroup"`
	Offset      int64   `json:"offset"`
	CreatedAt   string  `json:"createdAt"`
}

// Run pops; that nothing was there is exit code 3.
func (c *popCommand) Run(p *process) error {
	q := url.Values{"batch": {strconv.Itoa(c.Batch)}}
	if c.Group != "" {
		q.Set("consumerGroup", c.Group)
	}
	if c.Wait > 0 {
		q.Set("wait", "true")
		q.Set("timeout", itoa(c.Wait.Milliseconds()))
	}
	if c.Lease != nil {
		q.Set("leaseSeconds", itoa(int64(*c.Lease/time.Second)))
	}
	if c.AutoAck {
		q.Set("autoAck", "true")
	}
	if c.New {
		q.Set("subscriptionMode", "new")
	}
	segments := []string{"pop", "queue", c.Queue}
	if c.Partition != "" {
		segments = append(segments, "partition", c.Partition)
	}
	answer, err := c.call(p, "GET", endpoint(q, segments...), nil, c.Wait)
	if err != nil {
		return err
	}
	if answer == nil {
		return &exitError{exitNothing, fmt.Errorf("nothing to pop from %s", strconv.Quote(c.Queue))}
	}
	return c.show(p, answer, func() (*table, error) {
		var got popped
		if err := decodeAnswer(answer, &got); err != nil {
			return nil, err
		}
		t := &table{head: []string{"PARTITION", "OFFSET", "CREATED", "TRANSACTION ID", "DATA"}}
		for _, m := range got.Messages {
			t.add(m.Partition, itoa(m.Offset), m.CreatedAt, m.idText.cell(), m.valueText.cell())
		}
		if got.LeaseID != nil && len(got.Messages) > 0 {
			m := got.Messages[0]
			t.foot = fmt.Sprintf("leased as %s: queen ack %s ID … --lease %s --group %s, or queen pop -o json … | queen ack",
				*got.LeaseID, m.PartitionID, *got.LeaseID, got.ConsumerGroup)
		}
		return t, nil
	})
}
