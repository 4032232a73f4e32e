package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

type pushCommand struct {
	clientFlags

	Queue string   `arg:"" help:"Queue to push to; it is made by its first message."`
	Data  []string `arg:"" optional:"" sep:"none" help:"A message each, as JSON. Without any, each line of stdin is one."`

	Partition string   `short:"p" placeholder:"NAME" help:"Partition to push to (default: Default; of a Kafka topic, chosen by key and id)."`
	ID        string   `name:"id" placeholder:"ID" help:"The message's transactionId: repeating the command with it stores nothing twice. For one message."`
	Key       string   `placeholder:"KEY" help:"Key of the messages."`
	Header    []string `short:"H" sep:"none" placeholder:"NAME=VALUE" help:"Header of the messages; may be repeated."`
	Text      bool     `help:"The messages are text, not JSON: each is stored as a JSON string."`
	Bytes     bool     `help:"The messages are bytes, stored as they are."`
}

// Validate refuses what cannot be meant.
func (c *pushCommand) Validate() error {
	switch {
	case c.Text && c.Bytes:
		return errors.New("--text and --bytes exclude each other")
	case c.ID != "" && len(c.Data) != 1:
		return errors.New("--id names one message: give one, as an argument")
	}
	for _, h := range c.Header {
		if name, _, found := strings.Cut(h, "="); !found || name == "" {
			return fmt.Errorf("--header is %q, must be NAME=VALUE", h)
		}
	}
	return c.clientFlags.Validate()
}

// The bounds of one request of many lines.
const (
	pushLines     = 1000
	pushBytes     = 8 << 20
	pushLineBytes = 32 << 20
)

// pushOutcome is what became of one message.
type pushOutcome struct {
	Index     int     `json:"index"`
	MessageID *string `json:"message_id"`
	ID        *string `json:"transaction_id"`
	IDBase64  string  `json:"transaction_id_base64"`
	Partition string  `json:"partition"`
	Status    string  `json:"status"`
	Offset    *int64  `json:"offset"`
	Error     string  `json:"error"`
}

// Run pushes; a message that is not stored makes it fail, after the others.
func (c *pushCommand) Run(p *process) error {
	if len(c.Data) > 0 {
		return c.push(p, c.Data, -1)
	}
	in := bufio.NewScanner(p.stdin)
	in.Buffer(nil, pushLineBytes)
	var lines []string
	size, pushed := 0, 0
	flush := func() error {
		if len(lines) == 0 {
			return nil
		}
		err := c.push(p, lines, pushed)
		pushed += len(lines)
		lines, size = lines[:0], 0
		return err
	}
	for in.Scan() {
		if p.ctx.Err() != nil {
			return fmt.Errorf("interrupted; the lines of stdin after the first %d were not pushed", pushed)
		}
		lines = append(lines, in.Text())
		if size += len(in.Text()); len(lines) == pushLines || size >= pushBytes {
			if err := flush(); err != nil {
				return err // later lines would overtake what was not stored
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d of stdin has more than %d bytes; it was not pushed, nor was what follows", pushed+1, pushLineBytes)
	} else if err != nil {
		return fmt.Errorf("read stdin after line %d: %w", pushed, err)
	}
	return nil
}

// push pushes messages, which are those after so many lines of stdin, or for −1
// arguments.
func (c *pushCommand) push(p *process, data []string, after int) error {
	body := []byte(`{"items":[`)
	for i, d := range data {
		item, err := c.item(d)
		switch {
		case err != nil && after >= 0:
			return fmt.Errorf("line %d of stdin: %w; the first %d lines were pushed, no others", after+i+1, err, after)
		case err != nil:
			return err
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item...)
	}
	answer, err := c.call(p, "POST", endpoint(nil, "push"), append(body, "]}"...), 0)
	var refused *refusal
	if errors.As(err, &refused) && refused.Items != nil && len(data) > 1 {
		answer = refused.Items // told one by one below
	} else if err != nil {
		return err
	}
	var out []pushOutcome
	if err := decodeAnswer(answer, &out); err != nil {
		return err
	}
	if err := c.show(p, answer, func() (*table, error) { return pushedTable(out), nil }); err != nil {
		return err
	}
	bad := 0
	for _, o := range out {
		if o.Status == "error" {
			bad++
		}
	}
	if bad > 0 {
		text := fmt.Errorf("%d of %d messages were not stored", bad, len(out))
		var exit *exitError
		if errors.As(err, &exit) {
			return &exitError{exit.code, text}
		}
		return text
	}
	return nil
}

func (c *pushCommand) item(data string) ([]byte, error) {
	var o object
	o.text("queue", c.Queue)
	o.text("partition", c.Partition)
	switch {
	case c.Bytes:
		o.raw("dataBase64", quote(base64.StdEncoding.EncodeToString([]byte(data))))
	case !utf8.ValidString(data): // it would be stored with other bytes
		return nil, fmt.Errorf("%s is not UTF-8: push it with --bytes", quoted(data))
	case c.Text:
		o.raw("payload", quote(data))
	case !json.Valid([]byte(data)):
		return nil, fmt.Errorf("%s is not JSON: quote it whole for the shell, or push it with --text or --bytes", quoted(data))
	default:
		o.raw("payload", []byte(data))
	}
	o.text("transactionId", c.ID)
	o.text("key", c.Key)
	if len(c.Header) > 0 {
		b := []byte("[")
		for i, h := range c.Header {
			if i > 0 {
				b = append(b, ',')
			}
			name, value, _ := strings.Cut(h, "=")
			var pair object
			pair.raw("key", quote(name))
			pair.raw("value", quote(value))
			b = append(b, pair.end()...)
		}
		o.raw("headers", append(b, ']'))
	}
	return o.end(), nil
}

func pushedTable(out []pushOutcome) *table {
	t := &table{head: []string{"STATUS", "PARTITION", "OFFSET", "MESSAGE ID", "TRANSACTION ID"}}
	for _, o := range out {
		id := idText{ID: o.ID, IDBase64: o.IDBase64}
		last := id.cell()
		offset := "-"
		if o.Offset != nil {
			offset = itoa(*o.Offset)
		}
		if o.Status == "error" {
			last = o.Error
		}
		t.add(o.Status, o.Partition, offset, orDash(o.MessageID), last)
	}
	return t
}
