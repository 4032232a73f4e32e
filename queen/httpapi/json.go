package httpapi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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

// reader walks one JSON text once. It is strict (RFC 8259, valid UTF-8, a bound
// on depth) and copies nothing: values come back as parts of the body, byte for
// byte, so that large numbers, repeated keys, \u0000 and lone surrogates inside
// a payload survive. Member names are compared exactly.
type reader struct {
	src      []byte
	pos      int
	depth    int
	depthMax int
	// plain: src has no control character, not even between its values, and no
	// backslash. So a string ends at the next quote.
	plain bool
}

// newReader starts reading a body.
func newReader(src []byte, depthMax int) (*reader, error) {
	ascii, controls := survey(src)
	if !ascii && !utf8.Valid(src) {
		at := 0
		for at < len(src) {
			r, n := utf8.DecodeRune(src[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return nil, &bodyError{fatal: true, at: at, what: "invalid UTF-8"}
	}
	return &reader{src: src, depthMax: depthMax, plain: !controls && bytes.IndexByte(src, '\\') < 0}, nil
}

// survey says whether b is ASCII alone, and whether it has control characters.
func survey(b []byte) (ascii, controls bool) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	var top, low uint64
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b)
		top |= w
		low |= (w - ones*0x20) &^ w
	}
	for _, c := range b {
		top |= uint64(c)
		controls = controls || c < 0x20
	}
	return top&tops == 0, controls || low&tops != 0
}

func (r *reader) fail(what string) error {
	return &bodyError{fatal: true, at: r.pos, what: what}
}

// next skips white space and looks at the next byte; 0 at the end.
func (r *reader) next() byte {
	for r.pos < len(r.src) {
		switch c := r.src[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// end is the end of the body.
func (r *reader) end() error {
	if r.next(); r.pos < len(r.src) {
		return r.fail("text after the value")
	}
	return nil
}

func (r *reader) enter() error {
	if r.depth++; r.depth > r.depthMax {
		return r.fail("nested deeper than " + strconv.Itoa(r.depthMax))
	}
	r.pos++
	return nil
}

// object reads an object; each must read the member's value. The name is valid
// only during the call.
func (r *reader) object(each func(name []byte) error) error {
	if r.next() != '{' {
		return r.mistyped("an object")
	}
	if err := r.enter(); err != nil {
		return err
	}
	if r.next() == '}' {
		r.pos++
		r.depth--
		return nil
	}
	for {
		name, escaped, err := r.rawName()
		if err != nil {
			return err
		}
		if escaped {
			name, _ = unescape(name) // a lone surrogate is no name of ours
		}
		if err := each(name); err != nil {
			return under(show(name), err)
		}
		switch r.next() {
		case ',':
			r.pos++
		case '}':
			r.pos++
			r.depth--
			return nil
		default:
			return r.fail("',' or '}' was expected")
		}
	}
}

// array reads an array; each must read the element.
func (r *reader) array(each func(i int) error) error {
	if r.next() != '[' {
		return r.mistyped("an array")
	}
	if err := r.enter(); err != nil {
		return err
	}
	if r.next() == ']' {
		r.pos++
		r.depth--
		return nil
	}
	for i := 0; ; i++ {
		if err := each(i); err != nil {
			return under("["+strconv.Itoa(i)+"]", err)
		}
		switch r.next() {
		case ',':
			r.pos++
		case ']':
			r.pos++
			r.depth--
			return nil
		default:
			return r.fail("',' or ']' was expected")
		}
	}
}

// mistyped reads a value of another type and refuses it.
func (r *reader) mistyped(want string) error {
	if _, err := r.raw(); err != nil {
		return err
	}
	return refuse("", "must be %s", want)
}

// raw reads any value and returns exactly its bytes.
func (r *reader) raw() ([]byte, error) {
	c := r.next()
	start := r.pos
	var err error
	switch c {
	case '{', '[':
		err = r.skip(c == '{')
	case '"':
		_, _, err = r.rawString()
	case 't':
		err = r.word("true")
	case 'f':
		err = r.word("false")
	case 'n':
		err = r.word("null")
	case 0:
		err = r.fail("a value was expected")
	default:
		err = r.number()
	}
	if err != nil {
		return nil, err
	}
	return r.src[start:r.pos], nil
}

// skip reads an object or an array whose contents nobody asks for. Most bytes of
// most bodies go through here, so it makes no calls back and keeps no path.
func (r *reader) skip(object bool) error {
	if err := r.enter(); err != nil {
		return err
	}
	end := byte(']')
	if object {
		end = '}'
	}
	if r.next() == end {
		r.pos++
		r.depth--
		return nil
	}
	for {
		if object {
			if _, _, err := r.rawName(); err != nil {
				return err
			}
		}
		if _, err := r.raw(); err != nil {
			return err
		}
		switch r.next() {
		case ',':
			r.pos++
		case end:
			r.pos++
			r.depth--
			return nil
		default:
			return r.fail("',' or '" + string(end) + "' was expected")
		}
	}
}

// rawName reads a member's name and its colon.
func (r *reader) rawName() (raw []byte, escaped bool, err error) {
	if r.next() != '"' {
		return nil, false, r.fail("a member name in quotes was expected")
	}
	if raw, escaped, err = r.rawString(); err != nil {
		return nil, false, err
	}
	if r.next() != ':' {
		return nil, false, r.fail("':' was expected")
	}
	r.pos++
	return raw, escaped, nil
}

func (r *reader) word(w string) error {
	if !bytes.HasPrefix(r.src[r.pos:], []byte(w)) {
		return r.fail("a value was expected")
	}
	r.pos += len(w)
	return nil
}

// number reads a number of the JSON grammar.
func (r *reader) number() error {
	if r.at('-') {
		r.pos++
	}
	switch {
	case r.at('0'):
		r.pos++
	case r.digits() == 0:
		return r.fail("a value was expected")
	}
	if r.at('.') {
		r.pos++
		if r.digits() == 0 {
			return r.fail("a digit was expected")
		}
	}
	if r.at('e') || r.at('E') {
		r.pos++
		if r.at('+') || r.at('-') {
			r.pos++
		}
		if r.digits() == 0 {
			return r.fail("a digit was expected")
		}
	}
	return nil
}

func (r *reader) at(c byte) bool { return r.pos < len(r.src) && r.src[r.pos] == c }

func (r *reader) digits() int {
	start := r.pos
	for r.pos < len(r.src) && r.src[r.pos]-'0' <= 9 {
		r.pos++
	}
	return r.pos - start
}

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

// null reads null where it comes next.
func (r *reader) null() bool {
	if r.next() == 'n' && r.word("null") == nil {
		return true
	}
	return false
}

// boolean reads true or false.
func (r *reader) boolean() (bool, error) {
	switch r.next() {
	case 't':
		return true, r.word("true")
	case 'f':
		return false, r.word("false")
	}
	return false, r.mistyped("true or false")
}

// integer reads a whole number between lo and hi, written without a fraction or
// an exponent.
func (r *reader) integer(lo, hi int64) (int64, error) {
	switch c := r.next(); {
	case c == '-' || c-'0' <= 9:
	default:
		return 0, r.mistyped("a whole number")
	}
	text, err := r.raw()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < lo || n > hi {
		return 0, refuse("", "must be a whole number from %d to %d", lo, hi)
	}
	return n, nil
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

// isJSON tells whether a stored value can be embedded in an answer as it is.
func isJSON(value []byte, depthMax int) bool {
	if !utf8.Valid(value) {
		return false
	}
	r := reader{src: value, depthMax: depthMax}
	if _, err := r.raw(); err != nil {
		return false
	}
	return r.end() == nil
}
