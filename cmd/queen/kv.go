package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

type kvCommands struct {
	Get    kvGetCommand    `cmd:"" help:"Read a key."`
	List   kvListCommand   `cmd:"" help:"List keys by prefix."`
	Put    kvPutCommand    `cmd:"" help:"Set a key."`
	Once   kvOnceCommand   `cmd:"" help:"Take a key that nobody has: exit code 1 where somebody has it."`
	Incr   kvIncrCommand   `cmd:"" help:"Add to a counter."`
	Delete kvDeleteCommand `cmd:"" help:"Delete a key."`
}

// kvKey names a key.
type kvKey struct {
	Namespace string `arg:"" help:"Namespace of the key."`
	Key       string `arg:"" help:"The key."`
}

// kvLife is how long a key lives.
type kvLife struct {
	TTL     time.Duration `name:"ttl" placeholder:"TIME" help:"How long the key lives, such as 168h."`
	Forever bool          `help:"The key does not expire."`
}

// Validate asks for exactly one of the two.
func (c *kvLife) Validate() error {
	switch {
	case (c.TTL != 0) == c.Forever:
		return errors.New("say how long the key lives: --ttl TIME or --forever")
	case !c.Forever && (c.TTL < time.Second || c.TTL%time.Second != 0):
		return fmt.Errorf("--ttl is %s, must be whole seconds, at least 1s", c.TTL)
	}
	return nil
}

func (c *kvLife) add(o *object) {
	if c.Forever {
		o.raw("forever", []byte("true"))
	} else {
		o.raw("ttlSeconds", []byte(itoa(int64(c.TTL/time.Second))))
	}
}

// kvOutcome is what became of one operation.
type kvOutcome struct {
	kvRow
	Op        string  `json:"op"`
	Found     *bool   `json:"found"`
	Applied   *bool   `json:"applied"`
	Reason    string  `json:"reason"`
	Rows      []kvRow `json:"rows"`
	Truncated bool    `json:"truncated"`
	NextAfter string  `json:"nextAfter"`
}

type kvRow struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Version   *int64          `json:"version"`
	ExpiresAt *string         `json:"expiresAt"`
}

// operate sends one operation and shows its outcome. What did not apply, or is not
// there, is shown and fails.
func (c *clientFlags) operate(p *process, op *object) error {
	var body object
	body.raw("operations", append(append([]byte{'['}, op.end()...), ']'))
	answer, err := c.call(p, "POST", endpoint(nil, "kv"), body.end(), 0)
	if err != nil {
		return err
	}
	var got struct {
		Results []json.RawMessage `json:"results"`
	}
	if err := decodeAnswer(answer, &got); err != nil {
		return err
	}
	if len(got.Results) != 1 {
		return fmt.Errorf("the broker answered %d outcomes to one operation", len(got.Results))
	}
	var o kvOutcome
	if err := decodeAnswer(got.Results[0], &o); err != nil {
		return err
	}
	if err := c.show(p, got.Results[0], func() (*table, error) { return o.table(), nil }); err != nil {
		return err
	}
	switch {
	case o.Found != nil && !*o.Found:
		return &exitError{exitNothing, errors.New("there is no such key")}
	case o.Applied != nil && !*o.Applied:
		return o.notApplied()
	}
	return nil
}

// notApplied says why nothing was changed.
func (o *kvOutcome) notApplied() error {
	switch {
	case o.Reason == "absent" && o.Op == "delete":
		return &exitError{exitNothing, errors.New("nothing was changed: there is no such key")}
	case o.Reason == "absent" || o.Reason == "version" && o.Version == nil:
		return errors.New("nothing was changed: there is no such key")
	case o.Reason == "version":
		return fmt.Errorf("nothing was changed: the key has version %d", *o.Version)
	case o.Reason == "exists":
		return errors.New("nothing was changed: somebody has the key")
	}
	return fmt.Errorf("nothing was changed: %s", o.Reason)
}

func (o *kvOutcome) table() *table {
	t := &table{head: []string{"KEY", "VERSION", "EXPIRES", "VALUE"}}
	rows := o.Rows
	if o.Version != nil {
		rows = append(rows, o.kvRow)
	}
	for _, r := range rows {
		version := "-"
		if r.Version != nil {
			version = itoa(*r.Version)
		}
		t.add(r.Key, version, orDash(r.ExpiresAt), string(r.Value))
	}
	if o.Truncated {
		t.foot = "more: --after " + string(quote(o.NextAfter))
	}
	return t
}

func kvOp(op, ns, key string) *object {
	var o object
	o.raw("op", quote(op))
	o.raw("ns", quote(ns))
	if key != "" {
		o.raw("key", quote(key))
	}
	return &o
}

type kvGetCommand struct {
	clientFlags
	kvKey
}

// Run reads a key; that it is not there is exit code 3.
func (c *kvGetCommand) Run(p *process) error { return c.operate(p, kvOp("get", c.Namespace, c.Key)) }

type kvListCommand struct {
	clientFlags
	Namespace string `arg:"" help:"Namespace of the keys."`
	Prefix    string `arg:"" help:"What the keys start with."`
	After     string `placeholder:"KEY" help:"Only keys after this one."`
	Limit     int    `short:"n" default:"100" placeholder:"N" help:"Keys at most (${default})."`
}

// Run lists keys.
func (c *kvListCommand) Run(p *process) error {
	o := kvOp("getPrefix", c.Namespace, "")
	o.raw("prefix", quote(c.Prefix))
	o.text("after", c.After)
	o.raw("limit", []byte(itoa(c.Limit)))
	return c.operate(p, o)
}

// expectFlag is the version a key must have.
type expectFlag struct {
	Expect *int64 `placeholder:"VERSION" help:"Only where the key has this version; 0: only where it is not there."`
}

func (c *expectFlag) add(o *object) {
	if c.Expect != nil {
		o.raw("expect", []byte(itoa(*c.Expect)))
	}
}

type kvPutCommand struct {
	clientFlags
	kvKey
	Value string `arg:"" empty:"" help:"The value, as JSON."`
	kvLife
	expectFlag
	Text bool `help:"The value is text, not JSON."`
}

// Validate refuses a value that is no JSON.
func (c *kvPutCommand) Validate() error {
	if !c.Text && !json.Valid([]byte(c.Value)) {
		return fmt.Errorf("%s is not JSON: quote it whole for the shell, or put it with --text", quoted(c.Value))
	}
	return errors.Join(c.kvLife.Validate(), c.clientFlags.Validate())
}

// Run sets a key.
func (c *kvPutCommand) Run(p *process) error {
	o := kvOp("put", c.Namespace, c.Key)
	if c.Text {
		o.raw("value", quote(c.Value))
	} else {
		o.raw("value", []byte(c.Value))
	}
	c.kvLife.add(o)
	c.expectFlag.add(o)
	return c.operate(p, o)
}

type kvOnceCommand struct {
	clientFlags
	kvKey
	kvLife
}

// Validate checks both.
func (c *kvOnceCommand) Validate() error {
	return errors.Join(c.kvLife.Validate(), c.clientFlags.Validate())
}

// Run takes a key.
func (c *kvOnceCommand) Run(p *process) error {
	o := kvOp("putIfAbsent", c.Namespace, c.Key)
	o.raw("value", []byte("true"))
	c.add(o)
	return c.operate(p, o)
}

type kvIncrCommand struct {
	clientFlags
	kvKey
	By int64 `default:"1" placeholder:"N" help:"How much to add (${default})."`
	kvLife
}

// Validate checks both.
func (c *kvIncrCommand) Validate() error {
	return errors.Join(c.kvLife.Validate(), c.clientFlags.Validate())
}

// Run adds to a counter.
func (c *kvIncrCommand) Run(p *process) error {
	o := kvOp("incr", c.Namespace, c.Key)
	o.raw("delta", []byte(itoa(c.By)))
	c.add(o)
	return c.operate(p, o)
}

type kvDeleteCommand struct {
	clientFlags
	kvKey
	expectFlag
}

// Run deletes a key.
func (c *kvDeleteCommand) Run(p *process) error {
	o := kvOp("delete", c.Namespace, c.Key)
	c.add(o)
	return c.operate(p, o)
}
