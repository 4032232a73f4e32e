package httpapi

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// The functions below append JSON to a buffer, and return it.

const hexDigits = "0123456789abcdef"

// appendComma separates the element of index i from the one before it.
func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

// appendString appends a string in quotes. Bytes that are not UTF-8 become the
// replacement character; callers that must keep them use appendBytes.
func appendString[S string | []byte](b []byte, s S) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && n == 1 {
				b = append(b, s[start:i]...)
				b = append(b, "\ufffd"...)
				i++
				start = i
				continue
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendBytes appends a member that is text where it is UTF-8, and base64 under
// name+suffix where it is not; nil is null.
func appendBytes(b []byte, name, suffix string, v []byte) []byte {
	b = append(b, '"')
	b = append(b, name...)
	switch {
	case v == nil:
		return append(b, `":null`...)
	case utf8.Valid(v):
		b = append(b, `":`...)
		return appendString(b, v)
	default:
		b = append(b, suffix...)
		b = append(b, `":`...)
		return appendBase64(b, v)
	}
}

func appendBase64(b, v []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

func appendUUID(b []byte, u uuid.UUID) []byte {
	b = append(b, '"')
	for i, c := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return append(b, '"')
}

// appendTime appends a time in UTC with milliseconds, as the published clients
// expect it.
func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	return append(b, '"')
}
