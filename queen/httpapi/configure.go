package httpapi

import (
	"math"

	"queenmq/queen"
)

// secondsMax bounds options in seconds: the database keeps an integer.
const secondsMax = math.MaxInt32

// stillOptions are options of the original that nothing enforces yet, so only
// the value that promises nothing is taken: the published clients send all of
// them, set or not.
var stillOptions = map[string]string{
	"leaseTime":                 "300",
	"retryLimit":                "3",
	"priority":                  "0",
	"delayedProcessing":         "0",
	"windowBuffer":              "0",
	"maxSize":                   "0",
	"completedRetentionSeconds": "0",
	"encryptionEnabled":         "false",
}

// configureBody is a configure request as read.
type configureBody struct {
	queue string
	patch queen.OptionsPatch
	seen  map[string]bool
}

// configure serves POST /api/v1/configure {"queue", "options"?, "mode"?}. It is a
// full replace: an option left out, or null, goes back to its default, and the
// answer lists those that changed by it under "reset"; "mode":"merge" keeps them.
func (s *Server) configure(x *exchange) (answer, error) {
	r, err := x.jsonBody()
	if err != nil {
		return answer{}, err
	}
	c := configureBody{seen: make(map[string]bool)}
	if err := r.object(func(name []byte) error { return c.member(r, string(name)) }); err != nil {
		return answer{}, err
	}
	if err := r.end(); err != nil {
		return answer{}, err
	}
	if !c.seen["queue"] {
		return answer{}, badRequest("invalid_request", "queue is missing")
	}
	ctx, cancel := x.context()
	defer cancel()
	got, err := s.engine.Configure(ctx, c.queue, c.patch)
	if err != nil {
		return answer{}, err
	}
	b := []byte(`{"success":true,"configured":true,"queue":`)
	b = appendString(b, got.Queue.Name)
	b = append(b, `,"created":`...)
	b = appendBool(b, got.Created)
	b = append(b, `,"options":`...)
	b = appendOptions(b, &got.Queue.Options)
	b = append(b, `,"reset":[`...)
	for i, key := range c.reset(&got) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, key)
	}
	return ok(append(b, "]}"...)), nil
}

// reset lists the options that went back to their default because the request
// did not name them.
func (c *configureBody) reset(got *queen.Configured) []string {
	if c.patch.Merge || got.Created {
		return nil
	}
	var keys []string
	was, is := &got.Before, &got.Queue.Options
	if c.patch.DedupWindowSeconds == nil && was.DedupWindowSeconds != is.DedupWindowSeconds {
		keys = append(keys, "dedupWindowSeconds")
	}
	if c.patch.MaxMessageBytes == nil && was.MaxMessageBytes != is.MaxMessageBytes {
		keys = append(keys, "maxMessageBytes")
	}
	if c.patch.RetentionMs == nil && was.RetentionMs != is.RetentionMs {
		keys = append(keys, "retentionSeconds")
	}
	return keys
}

func (c *configureBody) member(r *reader, name string) error {
	if c.seen[name] {
		return repeated()
	}
	c.seen[name] = true
	switch name {
	case "queue":
		v, err := r.str()
		c.queue = string(v)
		return err
	case "mode":
		switch v, err := r.optional(); {
		case err != nil:
			return err
		case v == "merge":
			c.patch.Merge = true
		case v != "replace" && v != "":
			return refuse("", "must be replace or merge")
		}
		return nil
	case "options":
		if r.null() {
			return nil
		}
		return r.object(func(option []byte) error { return c.option(r, string(option)) })
	case "namespace", "task":
		if r.null() {
			return nil
		}
		return refuse("not_served", "is not served yet")
	}
	return refuse("unknown_field", "is not known here")
}

func (c *configureBody) option(r *reader, name string) error {
	if c.seen["options."+name] {
		return repeated()
	}
	c.seen["options."+name] = true
	if r.null() { // as if left out
		if !knownOption(name) {
			return refuse("unknown_option", "is not an option")
		}
		return nil
	}
	switch name {
	case "dedupWindowSeconds":
		n, err := r.integer(0, secondsMax)
		c.patch.DedupWindowSeconds = ptr(int(n))
		return err
	case "retentionSeconds":
		n, err := r.integer(0, secondsMax)
		if n == 0 {
			c.patch.RetentionMs = ptr(int64(-1)) // keep everything
		} else {
			c.patch.RetentionMs = ptr(n * 1000)
		}
		return err
	case "maxMessageBytes":
		n, err := r.integer(1, math.MaxInt32)
		c.patch.MaxMessageBytes = ptr(int(n))
		return err
	}
	if !knownOption(name) {
		return refuse("unknown_option", "is not an option")
	}
	v, err := r.raw()
	if err == nil && string(v) != stillOptions[name] {
		err = refuse("not_served", "only %s is served yet", stillOptions[name])
	}
	return err
}

func knownOption(name string) bool {
	switch name {
	case "dedupWindowSeconds", "retentionSeconds", "maxMessageBytes":
		return true
	}
	_, still := stillOptions[name]
	return still
}

func ptr[T any](v T) *T { return &v }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, "true"...)
	}
	return append(b, "false"...)
}

// appendOptions appends all options a queue has. Retention in seconds is rounded
// up, since a topic may be set in milliseconds; retentionMs is exact, −1 for ever.
func appendOptions(b []byte, o *queen.QueueOptions) []byte {
	b = append(b, `{"dedupWindowSeconds":`...)
	b = appendInt(b, int64(o.DedupWindowSeconds))
	b = append(b, `,"windowFrom":`...)
	b = appendString(b, string(o.WindowFrom))
	b = append(b, `,"maxMessageBytes":`...)
	b = appendInt(b, int64(o.MaxMessageBytes))
	b = append(b, `,"retentionSeconds":`...)
	seconds := int64(0)
	if o.RetentionMs >= 0 {
		seconds = o.RetentionMs / 1000
		if o.RetentionMs%1000 != 0 {
			seconds++
		}
	}
	b = appendInt(b, seconds)
	b = append(b, `,"retentionMs":`...)
	b = appendInt(b, o.RetentionMs)
	return append(b, '}')
}
