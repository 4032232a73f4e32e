package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

type ackCommand struct {
	clientFlags

	PartitionID string   `arg:"" optional:"" help:"Id of the partition, as pop shows it. Without it, what queen pop -o json wrote is read from stdin."`
	ID          []string `arg:"" optional:"" sep:"none" name:"id" help:"Transaction ids of the messages."`

	Lease  string `placeholder:"ID" help:"The lease they were popped under; it is lost when it has ended. Without it, whatever lease is live."`
	Group  string `short:"g" placeholder:"NAME" help:"Consumer group; without one, the group-less mode."`
	Status string `short:"s" default:"completed" enum:"completed,failed,retry,dlq" help:"What became of them: ${enum}. failed counts towards the queue's limit, retry does not, dlq sets them aside at once."`
	Reason string `placeholder:"TEXT" help:"Why, with failed and dlq."`
}

// Validate refuses what cannot be meant.
func (c *ackCommand) Validate() error {
	if c.PartitionID != "" && len(c.ID) == 0 {
		return errors.New("say which messages: queen ack PARTITION-ID ID …, or pipe what queen pop -o json wrote")
	}
	return c.clientFlags.Validate()
}

// ackOutcome is what became of one acknowledgment.
type ackOutcome struct {
	Index   int    `json:"index"`
	Success bool   `json:"success"`
	Error   string `json:"error"`
	idText
}

// Run acknowledges; one that did not take effect makes it fail, after the others.
func (c *ackCommand) Run(p *process) error {
	acks, err := c.acks(p)
	if err != nil {
		return err
	}
	var body object
	body.raw("acknowledgments", acks)
	answer, err := c.call(p, "POST", endpoint(nil, "ack", "batch"), body.end(), 0)
	if err != nil {
		return err
	}
	var out []ackOutcome
	if err := decodeAnswer(answer, &out); err != nil {
		return err
	}
	bad := 0
	t := &table{head: []string{"TRANSACTION ID", "OUTCOME"}}
	for _, o := range out {
		outcome := c.Status
		if !o.Success {
			bad++
			outcome = o.Error
		}
		t.add(o.idText.cell(), outcome)
	}
	if err := c.show(p, answer, func() (*table, error) { return t, nil }); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d acknowledgments took no effect", bad, len(out))
	}
	return nil
}

// acks is the array of acknowledgments, of the command line or of a pop's answer.
func (c *ackCommand) acks(p *process) ([]byte, error) {
	var list []poppedMessage
	if c.PartitionID != "" {
		for i := range c.ID {
			m := poppedMessage{PartitionID: c.PartitionID, Group: c.Group}
			m.ID = &c.ID[i]
			list = append(list, m)
		}
	} else {
		var got popped
		text, err := io.ReadAll(io.LimitReader(p.stdin, answerMax))
		if err == nil && len(bytes.TrimSpace(text)) == 0 { // so says a pop that found nothing
			return nil, &exitError{exitNothing, errors.New("nothing to acknowledge: stdin is empty")}
		}
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil {
			return nil, fmt.Errorf("stdin is not what queen pop -o json wrote: %w; or name the messages: queen ack PARTITION-ID ID …", err)
		}
		list = got.Messages
	}
	b := []byte("[")
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var o object
		if m.ID != nil {
			o.text("transactionId", *m.ID)
		} else {
			o.text("transactionIdBase64", m.IDBase64)
		}
		o.text("partitionId", m.PartitionID)
		switch {
		case c.Lease != "":
			o.text("leaseId", c.Lease)
		case m.LeaseID != nil:
			o.text("leaseId", *m.LeaseID)
		}
		if c.Group != "" {
			m.Group = c.Group
		}
		o.text("consumerGroup", m.Group)
		o.text("status", c.Status)
		o.text("error", c.Reason)
		b = append(b, o.end()...)
	}
	return append(b, ']'), nil
}
