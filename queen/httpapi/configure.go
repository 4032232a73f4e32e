package httpapi

import (
	"math"
	"slices"

	"queenmq/queen"
)

// secondsMax bounds options in seconds: the database keeps an integer.
const secondsMax = math.MaxInt32

// stillOptions are options of the original that nothing enforces yet, so only
// the value that promises nothing is taken: the published clients send all of
// them, set or not.
var stillOptions = map[string]string{
	"priority":          "0",
	"windowBuffer":      "0",
	"maxSize":           "0",
	"encryptionEnabled": "false",
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
	b = appendLabels(b, &got.Queue.Options)
	b = append(b, `,"options":`...)
	b = appendOptions(b, &got.Queue.Options)
	b = append(b, `,"reset":[`...)
	for i, key := range c.reset(&got) {
		b = appendComma(b, i)
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
	note := func(left, changed bool, key string) {
		if left && changed {
			keys = append(keys, key)
		}
	}
	note(c.patch.DedupWindowSeconds == nil, was.DedupWindowSeconds != is.DedupWindowSeconds, "dedupWindowSeconds")
	note(c.patch.DedupSource == nil, was.DedupSource != is.DedupSource, "dedupSource")
	note(c.patch.DedupMaxIDs == nil, was.DedupMaxIDs != is.DedupMaxIDs, "dedupMaxIds")
	note(c.patch.MaxMessageBytes == nil, was.MaxMessageBytes != is.MaxMessageBytes, "maxMessageBytes")
	note(c.patch.RetentionMs == nil, was.RetentionMs != is.RetentionMs, "retentionSeconds")
	note(c.patch.RetentionBytes == nil, was.RetentionBytes != is.RetentionBytes, "retentionBytes")
	note(c.patch.Namespace == nil, was.Namespace != is.Namespace, "namespace")
	note(c.patch.Task == nil, was.Task != is.Task, "task")
	note(c.patch.LeaseSeconds == nil, was.LeaseSeconds != is.LeaseSeconds, "leaseTime")
	note(c.patch.RetryLimit == nil, was.RetryLimit != is.RetryLimit, "retryLimit")
	note(c.patch.RetryDelayMs == nil, was.RetryDelayMs != is.RetryDelayMs, "retryDelay")
	note(c.patch.DelaySeconds == nil, was.DelaySeconds != is.DelaySeconds, "delayedProcessing")
	note(c.patch.RetentionGroups == nil, !slices.Equal(was.RetentionGroups, is.RetentionGroups), "retentionGroups")
	note(c.patch.CompletedRetentionSeconds == nil, was.CompletedRetentionSeconds != is.CompletedRetentionSeconds, "completedRetentionSeconds")
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
		// null is as if left out.
		v, err := r.optional()
		switch {
		case err != nil || v == "":
		case name == "namespace":
			c.patch.Namespace = &v
		default:
			c.patch.Task = &v
		}
		return err
	}
	return refuse("unknown_field", notKnown)
}

func (c *configureBody) option(r *reader, name string) error {
	if c.seen["options."+name] {
		return repeated()
	}
	c.seen["options."+name] = true
	if r.null() { // as if left out
		if !knownOption(name) {
			return refuse("unknown_option", "is not an option: GET /api/v1/openapi.json describes those there are")
		}
		return nil
	}
	switch name {
	case "dedupWindowSeconds":
		return takeInteger(r, 0, secondsMax, &c.patch.DedupWindowSeconds)
	case "dedupSource":
		v, err := r.str()
		c.patch.DedupSource = ptr(string(v))
		return err
	case "dedupMaxIds":
		return takeInteger(r, 0, math.MaxInt64, &c.patch.DedupMaxIDs)
	case "retentionSeconds":
		n, err := r.integer(0, secondsMax)
		if n == 0 {
			c.patch.RetentionMs = ptr(int64(-1)) // keep everything
		} else {
			c.patch.RetentionMs = ptr(n * 1000)
		}
		return err
	case "retentionBytes":
		return takeInteger(r, -1, math.MaxInt64, &c.patch.RetentionBytes)
	case "completedRetentionSeconds":
		return takeInteger(r, 0, secondsMax, &c.patch.CompletedRetentionSeconds)
	case "leaseTime":
		return takeInteger(r, 1, secondsMax, &c.patch.LeaseSeconds)
	case "retryLimit":
		return takeInteger(r, 0, math.MaxInt32, &c.patch.RetryLimit)
	case "retryDelay":
		return takeInteger(r, 0, math.MaxInt64, &c.patch.RetryDelayMs)
	case "delayedProcessing":
		return takeInteger(r, 0, secondsMax, &c.patch.DelaySeconds)
	case "retentionGroups":
		groups := []string{}
		err := r.array(func(i int) error {
			if i == queen.RetentionGroupsMax {
				return refuse("", "more than %d groups", i)
			}
			v, err := r.str()
			groups = append(groups, groupOf(string(v)))
			return err
		})
		c.patch.RetentionGroups = &groups
		return err
	case "maxMessageBytes":
		return takeInteger(r, queen.MessageBytesMin, queen.MessageBytesMax, &c.patch.MaxMessageBytes)
	}
	if !knownOption(name) {
		return refuse("unknown_option", "is not an option: GET /api/v1/openapi.json describes those there are")
	}
	v, err := r.raw()
	if err == nil && string(v) != stillOptions[name] {
		err = refuse("not_served", "only %s is served yet", stillOptions[name])
	}
	return err
}

func knownOption(name string) bool {
	switch name {
	case "dedupWindowSeconds", "dedupSource", "dedupMaxIds", "retentionSeconds", "retentionBytes",
		"completedRetentionSeconds", "maxMessageBytes", "leaseTime", "retryLimit", "retryDelay", "delayedProcessing", "retentionGroups":
		return true
	}
	_, still := stillOptions[name]
	return still
}

// takeInteger reads a whole number into an option.
func takeInteger[T int | int64](r *reader, least, most int64, into **T) error {
	n, err := r.integer(least, most)
	*into = ptr(T(n))
	return err
}

func ptr[T any](v T) *T { return &v }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, "true"...)
	}
	return append(b, "false"...)
}

// appendLabels appends what a queue is labelled with; null is nothing.
func appendLabels(b []byte, o *queen.QueueOptions) []byte {
	for _, label := range []struct{ name, v string }{{"namespace", o.Namespace}, {"task", o.Task}} {
		b = append(b, `,"`...)
		b = append(b, label.name...)
		b = append(b, `":`...)
		if label.v == "" {
			b = append(b, "null"...)
		} else {
			b = appendString(b, label.v)
		}
	}
	return b
}

// appendOptions appends all options a queue has. Retention in seconds is rounded
// up, since a topic may be set in milliseconds; retentionMs is exact, −1 for ever.
func appendOptions(b []byte, o *queen.QueueOptions) []byte {
	b = append(b, `{"dedupWindowSeconds":`...)
	b = appendInt(b, int64(o.DedupWindowSeconds))
	b = append(b, `,"windowFrom":`...)
	b = appendString(b, string(o.WindowFrom))
	b = append(b, `,"dedupSource":`...)
	b = appendString(b, o.DedupSource)
	b = append(b, `,"dedupMaxIds":`...)
	b = appendInt(b, o.DedupMaxIDs)
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
	b = append(b, `,"retentionBytes":`...)
	b = appendInt(b, o.RetentionBytes)
	b = append(b, `,"completedRetentionSeconds":`...)
	b = appendInt(b, int64(o.CompletedRetentionSeconds))
	b = append(b, `,"leaseTime":`...)
	b = appendInt(b, int64(o.LeaseSeconds))
	b = append(b, `,"retryLimit":`...)
	b = appendInt(b, int64(o.RetryLimit))
	b = append(b, `,"retryDelay":`...)
	b = appendInt(b, o.RetryDelayMs)
	b = append(b, `,"delayedProcessing":`...)
	b = appendInt(b, int64(o.DelaySeconds))
	b = append(b, `,"retentionGroups":[`...)
	for i, g := range o.RetentionGroups {
		b = appendComma(b, i)
		if g == "" {
			g = noGroup
		}
		b = appendString(b, g)
	}
	return append(b, "]}"...)
}
