package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// plain are the bytes that stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 256; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// special marks bytes of w that may not stand for themselves in a string: those below
// 0x20, '"' and '\\'. It is 0 where there is none; above the lowest byte marked others may
// be marked that are none.
func special(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((w - ones*0x20) &^ w & tops) | ((quote - ones) &^ quote & tops) | ((backslash - ones) &^ backslash & tops)
}

// plainLen is how many bytes at the start of b stand for themselves in a string.
func plainLen(b []byte) int {
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		if s := special(binary.LittleEndian.Uint64(b[n:])); s != 0 {
			return n + bits.TrailingZeros64(s)/8
		}
	}
	for n < len(b) && plain[b[n]] {
		n++
	}
	return n
}

// rawString reads a string and returns what stands between its quotes.
func (r *reader) rawString() (raw []byte, escaped bool, err error) {
	r.pos++
	start := r.pos
	if r.plain {
		n := bytes.IndexByte(r.src[start:], '"')
		if n < 0 {
			r.pos = len(r.src)
			return nil, false, r.fail("the string does not end")
		}
		r.pos += n + 1
		return r.src[start : start+n], false, nil
	}
	for r.pos < len(r.src) {
		if r.pos += plainLen(r.src[r.pos:]); r.pos == len(r.src) {
			break
		}
		switch c := r.src[r.pos]; {
		case c == '"':
			raw = r.src[start:r.pos]
			r.pos++
			return raw, escaped, nil
		case c < 0x20:
			return nil, false, r.fail("a control character in a string must be escaped")
		default: // a backslash
			escaped = true
			r.pos++
			if r.pos == len(r.src) {
				return nil, false, r.fail("the string does not end")
			}
			switch r.src[r.pos] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				r.pos++
			case 'u':
				if _, ok := hex4(r.src[r.pos+1:]); !ok {
					return nil, false, r.fail("four hexadecimal digits were expected")
				}
				r.pos += 5
			default:
				return nil, false, r.fail("unknown escape")
			}
		}
	}
	return nil, false, r.fail("the string does not end")
}

// str reads a string and returns its bytes, part of the body where nothing was
// escaped.
func (r *reader) str() ([]byte, error) {
	if r.next() != '"' {
		return nil, r.mistyped("a string")
	}
	raw, escaped, err := r.rawString()
	if err != nil || !escaped {
		return raw, err
	}
	s, ok := unescape(raw)
	if !ok {
		return nil, refuse("", `holds half of a surrogate pair (\ud800 to \udfff), which is no character`)
	}
	return s, nil
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var v rune
	for _, c := range s[:4] {
		switch {
		case c-'0' <= 9:
			v = v<<4 | rune(c-'0')
		case c-'a' <= 5:
			v = v<<4 | rune(c-'a'+10)
		case c-'A' <= 5:
			v = v<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

// unescape decodes what stands between quotes; not ok for half of a surrogate
// pair, which has no UTF-8 form (and two of which must not become the same id).
func unescape(raw []byte) (s []byte, ok bool) {
	out := make([]byte, 0, len(raw))
	ok = true
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		i += 2
		switch c := raw[i-1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			v, _ := hex4(raw[i:])
			i += 4
			if utf16.IsSurrogate(v) {
				var low rune
				if bytes.HasPrefix(raw[i:], []byte(`\u`)) {
					low, _ = hex4(raw[i+2:])
				}
				if v = utf16.DecodeRune(v, low); v == utf8.RuneError {
					ok = false
				} else {
					i += 6
				}
			}
			out = utf8.AppendRune(out, v)
		default:
			out = append(out, c)
		}
	}
	return out, ok
}

// base64 reads a string of standard base64; what it says may be empty, never nil.
func (r *reader) base64() ([]byte, error) {
	s, err := r.str()
	if err != nil {
		return nil, err
	}
	v := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
	n, err := base64.StdEncoding.Strict().Decode(v, s)
	if err != nil {
		return nil, refuse("", "is not base64")
	}
	return v[:n], nil
}
