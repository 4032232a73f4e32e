package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

type dlqCommands struct {
	List   dlqListCommand   `cmd:"" help:"List dead letters, oldest first."`
	Replay dlqReplayCommand `cmd:"" help:"Push dead letters again, at the end of their partitions."`
	Purge  dlqPurgeCommand  `cmd:"" help:"Forget dead letters."`
}

// deadFlags choose dead letters.
type deadFlags struct {
	Queue     string `arg:"" help:"Queue whose dead letters are meant."`
	Partition string `short:"p" placeholder:"NAME" help:"Of this partition alone."`
	Group     string `short:"g" placeholder:"NAME" help:"Of this consumer group alone; __QUEUE_MODE__ is the group-less mode."`
}

func (c *deadFlags) query() url.Values {
	q := url.Values{"queue": {c.Queue}}
	if c.Partition != "" {
		q.Set("partition", c.Partition)
	}
	if c.Group != "" {
		q.Set("consumerGroup", c.Group)
	}
	return q
}

type dlqListCommand struct {
	clientFlags
	deadFlags
	From  string `placeholder:"TIME" help:"Given up on then or later, such as 2026-01-02T03:04:05Z."`
	To    string `placeholder:"TIME" help:"Given up on before."`
	Limit int    `short:"n" default:"100" placeholder:"N" help:"Dead letters at most (${default})."`
	Skip  int    `default:"0" placeholder:"N" help:"Dead letters to pass by (${default})."`
}

// Run lists dead letters.
func (c *dlqListCommand) Run(p *process) error {
	q := c.query()
	q.Set("limit", strconv.Itoa(c.Limit))
	q.Set("offset", strconv.Itoa(c.Skip))
	for name, v := range map[string]string{"from": c.From, "to": c.To} {
		if v != "" {
			q.Set(name, v)
		}
	}
	answer, err := c.call(p, "GET", endpoint(q, "dlq"), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Messages []struct {
				poppedMessage
				DeadLetterID string  `json:"deadLetterId"`
				Failures     int     `json:"retryCount"`
				FailedAt     string  `json:"failedAt"`
				Reason       *string `json:"errorMessage"`
			} `json:"messages"`
			Total int `json:"total"`
		}
		t := &table{head: []string{"ID", "PARTITION", "GROUP", "FAILURES", "GIVEN UP", "REASON", "TRANSACTION ID", "DATA"}}
		err := decodeAnswer(answer, &got)
		for _, m := range got.Messages {
			t.add(m.DeadLetterID, m.Partition, m.Group, itoa(m.Failures), m.FailedAt, orDash(m.Reason), m.idText.cell(), m.valueText.cell())
		}
		t.foot = fmt.Sprintf("%d of %d", len(got.Messages), got.Total)
		return t, err
	})
}

type dlqReplayCommand struct {
	clientFlags
	deadFlags
	ID    []string `arg:"" optional:"" sep:"none" name:"id" help:"Ids of dead letters, as dlq list shows them. Without any, the oldest ones."`
	Limit int      `short:"n" default:"100" placeholder:"N" help:"Dead letters at most (${default})."`
}

// Run replays dead letters; sent again, the command goes on with what is left.
func (c *dlqReplayCommand) Run(p *process) error {
	var body object
	body.text("queue", c.Queue)
	body.text("partition", c.Partition)
	body.text("consumerGroup", c.Group)
	if len(c.ID) > 0 {
		b := []byte("[")
		for i, id := range c.ID {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, quote(id)...)
		}
		body.raw("ids", append(b, ']'))
	}
	body.raw("limit", []byte(itoa(c.Limit)))
	answer, err := c.call(p, "POST", endpoint(nil, "dlq", "replay"), body.end(), 0)
	if err != nil {
		return err
	}
	var got struct {
		Replayed int `json:"replayed"`
		Results  []struct {
			DeadLetterID string  `json:"deadLetterId"`
			Success      bool    `json:"success"`
			ID           *string `json:"transaction_id"`
			IDBase64     string  `json:"transaction_id_base64"`
			Partition    string  `json:"partition"`
			Offset       int64   `json:"offset"`
			Error        string  `json:"error"`
		} `json:"results"`
	}
	if err := decodeAnswer(answer, &got); err != nil {
		return err
	}
	t := &table{head: []string{"ID", "PARTITION", "OFFSET", "TRANSACTION ID"}, foot: itoa(got.Replayed) + " replayed"}
	for _, r := range got.Results {
		id := idText{ID: r.ID, IDBase64: r.IDBase64}
		if r.Success {
			t.add(r.DeadLetterID, r.Partition, itoa(r.Offset), id.cell())
		} else {
			t.add(r.DeadLetterID, "-", "-", r.Error)
		}
	}
	if err := c.show(p, answer, func() (*table, error) { return t, nil }); err != nil {
		return err
	}
	if len(got.Results) < len(c.ID) {
		return &exitError{exitNothing, fmt.Errorf("%d of the %d ids named are of no dead letter of %s: queen dlq list shows those there are", len(c.ID)-len(got.Results), len(c.ID), strconv.Quote(c.Queue))}
	}
	if got.Replayed < len(got.Results) {
		return fmt.Errorf("%d of %d dead letters were not replayed", len(got.Results)-got.Replayed, len(got.Results))
	}
	return nil
}

type dlqPurgeCommand struct {
	clientFlags
	deadFlags
	Letter string `name:"letter" placeholder:"ID" help:"This dead letter alone, as dlq list shows it."`
	Yes    bool   `help:"Yes, for good: without it nothing is forgotten."`
}

// Run forgets dead letters.
func (c *dlqPurgeCommand) Run(p *process) error {
	if !c.Yes {
		return &exitError{exitUsage, errors.New("this forgets dead letters for good; say so with --yes")}
	}
	q := c.query()
	if c.Letter != "" {
		q.Set("id", c.Letter)
	}
	answer, err := c.call(p, "DELETE", endpoint(q, "dlq"), nil, 0)
	if err != nil {
		return err
	}
	return c.show(p, answer, func() (*table, error) {
		var got struct {
			Deleted int `json:"deleted"`
		}
		err := decodeAnswer(answer, &got)
		return &table{head: []string{"FORGOTTEN"}, rows: [][]string{{itoa(got.Deleted)}}}, err
	})
}
