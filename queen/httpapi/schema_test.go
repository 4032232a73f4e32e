package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// schemas checks values against the part of JSON Schema 2020-12 that our
// document uses; a keyword it does not know is a mistake, not ignored. It is
// here and not a library because the part is small, and so nothing can be
// checked less than it is written.
type schemas struct {
	root any
}

// decode reads JSON with its numbers as they are written.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

// resolve follows a reference inside the document.
func (s schemas) resolve(ref string) (any, error) {
	at := s.root
	path, inside := strings.CutPrefix(ref, "#/")
	if !inside {
		return nil, fmt.Errorf("%s is not inside the document", ref)
	}
	for _, name := range strings.Split(path, "/") {
		m, _ := at.(map[string]any)
		if at = m[name]; at == nil {
			return nil, fmt.Errorf("%s: there is no %s", ref, name)
		}
	}
	return at, nil
}

// check says what about v breaks the schema; nil where nothing does.
func (s schemas) check(schema, v any, path string) error {
	if path == "" {
		path = "value"
	}
	rules, is := schema.(map[string]any)
	if !is {
		return fmt.Errorf("%s: its schema is no object", path)
	}
	for _, keyword := range slices.Sorted(keysOf(rules)) {
		if err := s.rule(keyword, rules, v, path); err != nil {
			return err
		}
	}
	return nil
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (s schemas) rule(keyword string, rules map[string]any, v any, path string) error {
	want := rules[keyword]
	switch keyword {
	case "description", "default":
		return nil
	case "$ref":
		target, err := s.resolve(want.(string))
		if err != nil {
			return err
		}
		return s.check(target, v, path)
	case "type":
		return checkType(want, v, path)
	case "const":
		if !same(want, v) {
			return fmt.Errorf("%s: is %s, want %s", path, text(v), text(want))
		}
	case "enum":
		if !slices.ContainsFunc(want.([]any), func(w any) bool { return same(w, v) }) {
			return fmt.Errorf("%s: is %s, want one of %s", path, text(v), text(want))
		}
	case "oneOf", "anyOf", "allOf":
		return s.several(keyword, want.([]any), v, path)
	case "properties", "additionalProperties", "required":
		object, is := v.(map[string]any)
		if !is {
			return nil
		}
		return s.object(keyword, rules, object, path)
	case "items":
		list, _ := v.([]any)
		for i, e := range list {
			if err := s.check(want, e, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case "minItems", "maxItems":
		if list, is := v.([]any); is {
			return bound(keyword, want, big.NewFloat(float64(len(list))), path)
		}
	case "minLength", "maxLength":
		if str, is := v.(string); is {
			return bound(keyword, want, big.NewFloat(float64(utf8.RuneCountInString(str))), path)
		}
	case "minimum", "maximum":
		if n, is := v.(json.Number); is {
			return bound(keyword, want, float(n), path)
		}
	case "pattern":
		if str, is := v.(string); is && !regexp.MustCompile(want.(string)).MatchString(str) {
			return fmt.Errorf("%s: %q does not match %s", path, str, want)
		}
	case "format", "contentEncoding":
		if str, is := v.(string); is {
			return checkFormat(want.(string), str, path)
		}
	default:
		return fmt.Errorf("%s: keyword %s is not known to the test's validator", path, keyword)
	}
	return nil
}

func (s schemas) several(keyword string, of []any, v any, path string) error {
	var errs []string
	fit := 0
	for _, one := range of {
		if err := s.check(one, v, path); err != nil {
			errs = append(errs, err.Error())
		} else {
			fit++
		}
	}
	switch {
	case keyword == "allOf" && fit < len(of), keyword != "allOf" && fit == 0:
		return fmt.Errorf("%s: %s: %s", path, keyword, strings.Join(errs, "; "))
	case keyword == "oneOf" && fit > 1:
		return fmt.Errorf("%s: %s: %d fit", path, keyword, fit)
	}
	return nil
}

func (s schemas) object(keyword string, rules map[string]any, v map[string]any, path string) error {
	properties, _ := rules["properties"].(map[string]any)
	switch keyword {
	case "required":
		for _, name := range rules["required"].([]any) {
			if _, has := v[name.(string)]; !has {
				return fmt.Errorf("%s: %s is missing", path, name)
			}
		}
	case "properties":
		for _, name := range slices.Sorted(keysOf(v)) {
			if p, known := properties[name]; known {
				if err := s.check(p, v[name], path+"."+name); err != nil {
					return err
				}
			}
		}
	case "additionalProperties":
		for _, name := range slices.Sorted(keysOf(v)) {
			if _, known := properties[name]; known {
				continue
			}
			if rules["additionalProperties"] == false {
				return fmt.Errorf("%s: %s is not described", path, name)
			}
			if err := s.check(rules["additionalProperties"], v[name], path+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkType(want, v any, path string) error {
	kinds, many := want.([]any)
	if !many {
		kinds = []any{want}
	}
	for _, kind := range kinds {
		switch v := v.(type) {
		case nil:
			if kind == "null" {
				return nil
			}
		case bool:
			if kind == "boolean" {
				return nil
			}
		case string:
			if kind == "string" {
				return nil
			}
		case json.Number:
			if kind == "number" || kind == "integer" && float(v).IsInt() {
				return nil
			}
		case []any:
			if kind == "array" {
				return nil
			}
		case map[string]any:
			if kind == "object" {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: is %s, want %s", path, text(v), text(want))
}

func checkFormat(format, v, path string) error {
	var err error
	switch format {
	case "uuid":
		err = uuid.Validate(v)
	case "date-time":
		_, err = time.Parse(time.RFC3339Nano, v)
	case "base64":
		_, err = base64.StdEncoding.Strict().DecodeString(v)
	default:
		err = fmt.Errorf("a format that is not known to the test's validator")
	}
	if err != nil {
		return fmt.Errorf("%s: %q is no %s: %w", path, v, format, err)
	}
	return nil
}

func bound(keyword string, want any, got *big.Float, path string) error {
	limit := float(want.(json.Number))
	if c := got.Cmp(limit); strings.HasPrefix(keyword, "min") && c < 0 || strings.HasPrefix(keyword, "max") && c > 0 {
		return fmt.Errorf("%s: %s, %s is %s", path, got.Text('g', 20), keyword, want)
	}
	return nil
}

func float(n json.Number) *big.Float {
	f, _, err := big.ParseFloat(string(n), 10, 128, big.ToNearestEven)
	if err != nil {
		return big.NewFloat(0)
	}
	return f
}

func same(a, b any) bool { return text(a) == text(b) }

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestSchemaValidator: what the validator lets through is what every other test
// of the document rests on.
func TestSchemaValidator(t *testing.T) {
	t.Parallel()
	doc, err := decode([]byte(`{"components":{"schemas":{"Name":{"type":"string","minLength":1}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	f := func(schema, value string, fits bool) {
		t.Helper()
		rules, err := decode([]byte(schema))
		if err != nil {
			t.Fatal(err)
		}
		v, err := decode([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		if err := (schemas{doc}).check(rules, v, ""); (err == nil) != fits {
			t.Errorf("%s with %s: %v, want it to fit: %v", schema, value, err, fits)
		}
	}
	both := func(schema, good, bad string) {
		t.Helper()
		f(schema, good, true)
		f(schema, bad, false)
	}
	both(`{"type":"integer"}`, `9223372036854775807`, `1.5`)
	both(`{"type":"integer"}`, `1e3`, `"1"`)
	both(`{"type":["string","null"]}`, `null`, `{}`)
	both(`{"type":"boolean"}`, `false`, `0`)
	both(`{"type":"array","items":{"type":"object"},"minItems":1,"maxItems":2}`, `[{}]`, `[]`)
	f(`{"items":{"type":"object"},"maxItems":2}`, `[{},{},{}]`, false)
	f(`{"items":{"type":"object"}}`, `[{},1]`, false)
	both(`{"const":true}`, `true`, `"true"`)
	both(`{"enum":["a",null]}`, `null`, `"b"`)
	both(`{"minimum":0,"maximum":9223372036854775807}`, `9223372036854775807`, `9223372036854775808`)
	f(`{"minimum":0}`, `-1`, false)
	both(`{"minLength":1,"maxLength":2}`, `"ää"`, `""`)
	f(`{"maxLength":2}`, `"abc"`, false)
	both(`{"pattern":"^a"}`, `"ab"`, `"ba"`)
	both(`{"format":"uuid"}`, `"01900000-0000-7000-8000-000000000001"`, `"1"`)
	both(`{"format":"date-time"}`, `"2026-01-02T03:04:05.678Z"`, `"2026-01-02"`)
	both(`{"contentEncoding":"base64"}`, `"/w=="`, `"/w"`)
	both(`{"$ref":"#/components/schemas/Name"}`, `"a"`, `""`)
	f(`{"$ref":"#/components/schemas/Nobody"}`, `"a"`, false)
	both(`{"required":["a"],"properties":{"a":{"type":"null"}},"additionalProperties":false}`, `{"a":null}`, `{"a":null,"b":1}`)
	f(`{"required":["a"]}`, `{}`, false)
	f(`{"properties":{"a":{"type":"null"}}}`, `{"a":1}`, false)
	both(`{"additionalProperties":{"type":"string"}}`, `{"x":"y"}`, `{"x":1}`)
	both(`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1}`, `{"a":1,"b":2}`)
	f(`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, false)
	both(`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`, `{}`)
	both(`{"allOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":2}`, `{"a":1}`)
	f(`{"uniqueItems":true}`, `[]`, false)
}
