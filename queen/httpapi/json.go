package httpapi

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

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

func unknownName(r *reader) error {
	if _, err := r.raw(); err != nil {
		return err
	}
	return refuse("unknown_field", notKnown)
}

func repeated() error { return refuse("", "is given twice") }
