package httpapi

import (
	"fmt"
	"strconv"
)

// bodyError says what is wrong with a JSON body, and where.
type bodyError struct {
	path string // "items[3].payload"
	what string
	// fatal: the text is not JSON, or not to be read further. Otherwise only the
	// value is refused and the reader stands behind it.
	fatal bool
	at    int // byte of the body, where fatal
	code  string
}

// Error implements error.
func (e *bodyError) Error() string {
	path := e.path
	if path == "" {
		path = "body"
	}
	if e.fatal {
		return fmt.Sprintf("%s: %s at byte %d", path, e.what, e.at)
	}
	return path + ": " + e.what
}

func (e *bodyError) word() string {
	switch {
	case e.code != "":
		return e.code
	case e.fatal:
		return "bad_json"
	default:
		return "invalid_request"
	}
}

// refuse is an error about the value just read.
func refuse(code, format string, args ...any) *bodyError {
	return &bodyError{code: code, what: fmt.Sprintf(format, args...)}
}

// under puts a step in front of an error's path.
func under(step string, err error) error {
	e, ok := err.(*bodyError) //nolint:errorlint // made here, and never wrapped before it gets here
	if !ok {
		return err
	}
	if e.path != "" && e.path[0] != '[' {
		step += "."
	}
	e.path = step + e.path
	return e
}

// show is a member name as it may stand in an error's path.
func show(name []byte) string {
	const max = 64
	if len(name) > max {
		name = name[:max]
	}
	for _, c := range name {
		if c < 0x20 || c == 0x7f || c == '.' || c == '"' {
			return strconv.Quote(string(name))
		}
	}
	return string(name)
}
