package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// clientFlags are those of every command that speaks to a broker over HTTP. What
// such a command says comes from its own line alone: its other flags have no
// environment variables, or one that was forgotten would change what is asked.
type clientFlags struct {
	URL    string `env:"QUEEN_URL" name:"url" default:"http://127.0.0.1:6632" placeholder:"URL" help:"Where the broker's HTTP door is (${default})."`
	Output string `env:"QUEEN_OUTPUT" short:"o" default:"auto" enum:"auto,table,json" help:"How answers are written: ${enum}. auto is a table on a terminal, else JSON."`
}

// The bounds of a call.
const (
	callTimeout = time.Minute // beyond the wait that was asked for
	answerMax   = 256 << 20   // bytes of an answer
)

// Validate refuses what is no address.
func (c *clientFlags) Validate() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--url is %q, must be like http://127.0.0.1:6632", c.URL)
	}
	return nil
}

// endpoint joins path segments, each escaped whole, and parameters.
func endpoint(query url.Values, segments ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	if len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String()
}

// call sends one request and returns the answer's body; nil is "nothing there"
// (204). wait is how long the broker was asked to wait.
func (c *clientFlags) call(p *process, method, target string, body []byte, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(p.ctx, wait+callTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", "queen/"+version)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, c.unreachable(p.ctx, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerMax+1))
	switch {
	case err != nil:
		return nil, c.unreachable(p.ctx, err)
	case len(answer) > answerMax:
		return nil, fmt.Errorf("the answer has more than %d bytes; ask for less at once", answerMax)
	case res.StatusCode == http.StatusNoContent:
		return nil, nil
	case res.StatusCode >= 300:
		return answer, refusalOf(res, answer)
	case !json.Valid(answer):
		return nil, fmt.Errorf("%s answered something that is not JSON: is it a broker's HTTP door? (--url)", c.URL)
	}
	return answer, nil
}

// unreachable says what to do about a call without an answer.
func (c *clientFlags) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{exitFailed, errors.New("interrupted; what was asked may have happened")}
	}
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return &exitError{exitRetry, fmt.Errorf("no answer from %s: %w; start a broker with queen serve, or name another one with --url or QUEEN_URL", c.URL, err)}
}

// refusal is an answer that is an error.
type refusal struct {
	Status int
	Text   string          `json:"error"`
	Code   string          `json:"code"`
	ID     string          `json:"requestId"`
	Items  json.RawMessage `json:"items"`
}

// Error implements error.
func (r *refusal) Error() string {
	text := r.Text
	if fix := fixes[r.Code]; fix != "" {
		text += "; " + fix
	}
	return text
}

// fixes says what to do about an error, by its code.
var fixes = map[string]string{
	"unknown_queue":     "queen queue list shows those there are",
	"unknown_partition": "queen queue partitions shows those there are",
	"unknown_group":     "queen group list shows those there are",
	"group_not_empty":   "wait until its leases have ended, or acknowledge them",
	"no_such_route":     "--url has a path of its own, or the broker is older than this command: GET /health says its version",
	"outcome_unknown":   "it may have happened: repeat the command, with the same --id where it pushes",
	"unavailable":       "nothing was done: repeat the command",
	"timed_out":         "repeat the command",
	"overloaded":        "repeat the command later",
	"closing":           "repeat the command",
	"storage_full":      "delete what is not needed (queen queue delete), or give PostgreSQL more space",
	"message_too_large": "see maxMessageBytes in queen queue get",
}

func refusalOf(res *http.Response, answer []byte) error {
	r := &refusal{Status: res.StatusCode}
	if json.Unmarshal(answer, r) != nil || r.Text == "" {
		return fmt.Errorf("%s: is it a broker's HTTP door? (--url)", res.Status)
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		return &exitError{exitRetry, r}
	}
	return r
}

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *exitError) Unwrap() error { return e.err }

// decodeAnswer reads an answer into v. An answer of another form is a mistake of ours.
func decodeAnswer(answer []byte, v any) error {
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("the broker's answer is not understood: %w", err)
	}
	return nil
}

// object writes a JSON object member by member; values are JSON already, and stay
// byte for byte as they are.
type object struct{ b []byte }

func (o *object) raw(name string, value []byte) {
	if o.b == nil {
		o.b = append(o.b, '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, quote(name)...)
	o.b = append(o.b, ':')
	o.b = append(o.b, value...)
}

// text adds a string where there is one.
func (o *object) text(name, value string) {
	if value != "" {
		o.raw(name, quote(value))
	}
}

func (o *object) end() []byte {
	if o.b == nil {
		return []byte("{}")
	}
	return append(o.b, '}')
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
