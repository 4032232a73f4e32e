package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// described is the document as served, ready to look things up in.
type described struct {
	schemas
	paths map[string]any
}

func readDocument(t *testing.T) described {
	t.Helper()
	s, _ := newTestServer(Config{})
	w := do(s, "GET", "/api/v1/openapi.json", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	root, err := decode(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	doc := root.(map[string]any)
	if doc["openapi"] != "3.1.0" || doc["info"].(map[string]any)["version"] != "test" {
		t.Errorf("openapi %v, info %v", doc["openapi"], doc["info"])
	}
	return described{schemas{root}, doc["paths"].(map[string]any)}
}

// operation finds what the document says of a row.
func (d described) operation(method, path string) map[string]any {
	methods, _ := d.paths[path].(map[string]any)
	op, _ := methods[strings.ToLower(method)].(map[string]any)
	return op
}

// at is the member of v, references followed.
func (d described) at(v any, names ...string) any {
	for _, name := range names {
		m, _ := d.follow(v).(map[string]any)
		v = m[name]
	}
	return d.follow(v)
}

func (d described) follow(v any) any {
	m, _ := v.(map[string]any)
	if ref, is := m["$ref"].(string); is {
		target, err := d.resolve(ref)
		if err != nil {
			return nil
		}
		return d.follow(target)
	}
	return v
}

// parameters are the parameters of an operation by name, those in the path or
// those behind it.
func (d described) parameters(op map[string]any, in string) map[string]map[string]any {
	found := map[string]map[string]any{}
	list, _ := op["parameters"].([]any)
	for _, p := range list {
		m, _ := d.follow(p).(map[string]any)
		if m["in"] == in {
			found[m["name"].(string)] = m
		}
	}
	return found
}

// checkBody checks a body against the schema under content.
func (d described) checkBody(content any, body string) error {
	if schema := d.at(content, "application/json", "schema"); schema != nil {
		v, err := decode([]byte(body))
		if err != nil {
			return err
		}
		return d.check(schema, v, "body")
	}
	if d.at(content, "text/plain", "schema") == nil && body != "" {
		return fmt.Errorf("a body is not described")
	}
	return nil
}

// checkAnswer checks an answer against what the document says of its status.
func (d described) checkAnswer(op map[string]any, w *httptest.ResponseRecorder) error {
	code := strconv.Itoa(w.Code)
	responses, _ := op["responses"].(map[string]any)
	r, listed := responses[code]
	if !listed {
		if w.Code < 400 {
			return fmt.Errorf("status %d is not described", w.Code)
		}
		r = responses["default"]
	}
	return d.checkBody(d.at(r, "content"), w.Body.String())
}

func TestOpenAPIDescribesTheRoutes(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	served, operations := map[string]bool{}, map[string]string{}
	for _, r := range routes {
		served[r.method+" "+r.path] = true
		op := d.operation(r.method, r.path)
		if op == nil {
			t.Errorf("%s %s is not in openapi/*.json", r.method, r.path)
			continue
		}
		id, _ := op["operationId"].(string)
		if other := operations[id]; id == "" || other != "" {
			t.Errorf("%s %s: operationId %q, which is also that of %q", r.method, r.path, id, other)
		}
		operations[id] = r.method + " " + r.path
		if op["summary"] == nil || d.at(op, "responses", "default", "content") == nil {
			t.Errorf("%s %s: no summary, or nothing said of errors", r.method, r.path)
		}
		if (d.at(op, "requestBody", "content", "application/json", "schema") != nil) != (r.body != noBody) {
			t.Errorf("%s %s: a requestBody where the route has none, or none where it has", r.method, r.path)
		}
		for _, segment := range strings.Split(r.path, "/") {
			if name, is := strings.CutPrefix(segment, "{"); is {
				p := d.parameters(op, "path")[strings.TrimSuffix(name, "}")]
				if p == nil || p["required"] != true {
					t.Errorf("%s %s: %s is not described as required", r.method, r.path, segment)
				}
			}
		}
		if got, want := len(d.parameters(op, "path")), strings.Count(r.path, "{"); got != want {
			t.Errorf("%s %s: %d parameters in the path are described, %d are there", r.method, r.path, got, want)
		}
	}
	for path, methods := range d.paths {
		for method := range methods.(map[string]any) {
			if !served[strings.ToUpper(method)+" "+path] {
				t.Errorf("%s %s is described and not served", method, path)
			}
		}
	}
}

// TestOpenAPIParametersAreThoseRead: a parameter that is described is known to
// the handler, and one that is not described is refused.
func TestOpenAPIParametersAreThoseRead(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	refused := func(r route, name string) bool {
		s, _ := newTestServer(Config{})
		body := ""
		if r.body != noBody {
			body = "{}"
		}
		w := do(s, r.method, concrete(r.path)+"?"+name+"=~", body)
		return w.Code == 400 && strings.Contains(w.Body.String(), `"code":"unknown_parameter"`)
	}
	for _, r := range routes {
		described := d.parameters(d.operation(r.method, r.path), "query")
		for name := range described {
			if r.query != ownQuery || refused(r, name) {
				t.Errorf("%s %s?%s is described and not read", r.method, r.path, name)
			}
		}
		if r.query != anyQuery && !refused(r, "nosuch") {
			t.Errorf("%s %s?nosuch is not refused", r.method, r.path)
		}
	}
}

// concrete puts a name that every variable takes into a path.
func concrete(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") {
			segments[i] = "1"
		}
	}
	return strings.Join(segments, "/")
}

// TestOpenAPIMembersAreThoseRead: a member that is described, at any depth, is
// known to the handler.
func TestOpenAPIMembersAreThoseRead(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	for _, r := range routes {
		schema := d.at(d.operation(r.method, r.path), "requestBody", "content", "application/json", "schema")
		if schema == nil {
			continue
		}
		send := func(body string) string {
			s, _ := newTestServer(Config{})
			w := do(s, r.method, concrete(r.path), body)
			var e struct{ Code string }
			if w.Code >= 400 && json.Unmarshal(w.Body.Bytes(), &e) != nil {
				t.Errorf("%s: %s", body, w.Body)
			}
			return e.Code
		}
		d.eachMember(schema, "%s", 0, func(body, name string) {
			if code := send(body); strings.HasPrefix(code, "unknown_field") || strings.HasPrefix(code, "unknown_option") {
				t.Errorf("%s %s with %s: %s is described and answered %s", r.method, r.path, body, name, code)
			}
		})
		if code := send(`{"nosuch":1}`); code != "unknown_field" {
			t.Errorf(`%s %s {"nosuch":1}: code %q, want unknown_field`, r.method, r.path, code)
		}
	}
}

// eachMember calls f with a body for each member of a schema's objects.
func (d described) eachMember(schema any, around string, depth int, f func(body, name string)) {
	if depth > 8 { // schemas may hold themselves
		return
	}
	rules, _ := d.follow(schema).(map[string]any)
	for _, keyword := range []string{"oneOf", "anyOf", "allOf"} {
		list, _ := rules[keyword].([]any)
		for _, one := range list {
			d.eachMember(one, around, depth+1, f)
		}
	}
	if items := rules["items"]; items != nil {
		d.eachMember(items, fmt.Sprintf(around, "[%s]"), depth+1, f)
	}
	properties, _ := rules["properties"].(map[string]any)
	for _, name := range slices.Sorted(keysOf(properties)) {
		f(fmt.Sprintf(around, `{"`+name+`":[[]]}`), name)
		d.eachMember(properties[name], fmt.Sprintf(around, `{"`+name+`":%s}`), depth+1, f)
	}
}

// TestGoldenExchangesFitOpenAPI: every golden answer, and every golden request
// that was taken, is as described; and each route has a golden exchange.
func TestGoldenExchangesFitOpenAPI(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	taken := map[string]bool{
		// Not golden: its text is of the library, and a list of everything.
		"GET /metrics": true, "GET /metrics/prometheus": true,
		// Not golden: it is read by every test here.
		"GET /api/v1/openapi.json": true,
	}
	files, err := filepath.Glob("testdata/*.http")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range parseExchanges(t, string(golden)) {
			u, err := url.Parse(x.target)
			if err != nil {
				t.Fatal(err)
			}
			row, _, p := match(x.method, u.EscapedPath())
			if p != nil {
				continue // answered before any route
			}
			op := d.operation(row.method, row.path)
			w := httptest.NewRecorder()
			w.Code = x.status
			w.Body.WriteString(x.want)
			if err := d.checkAnswer(op, w); err != nil {
				t.Errorf("%s:%d: the answer: %v", file, x.line, err)
			}
			if x.status >= 300 {
				continue
			}
			taken[row.method+" "+row.path] = true
			refused := strings.Contains(x.want, `"status":"error"`) // an item of it
			if row.body != noBody && x.body != "" && !refused {
				if err := d.checkBody(d.at(op, "requestBody", "content"), x.body); err != nil {
					t.Errorf("%s:%d: the request: %v", file, x.line, err)
				}
			}
			for name, v := range u.Query() {
				if p := d.parameters(op, "query")[name]; row.query == ownQuery {
					if err := d.checkParameter(p, v[0]); err != nil {
						t.Errorf("%s:%d: ?%s: %v", file, x.line, name, err)
					}
				}
			}
		}
	}
	for _, r := range routes {
		if !taken[r.method+" "+r.path] {
			t.Errorf("%s %s has no golden exchange that succeeds: add one to testdata/*.http", r.method, r.path)
		}
	}
}

// checkParameter checks a parameter's text, as text and as what it may spell.
func (d described) checkParameter(p map[string]any, v string) error {
	err := d.check(p["schema"], v, "value")
	if spelled, bad := decode([]byte(v)); err != nil && bad == nil {
		return d.check(p["schema"], spelled, "value")
	}
	return err
}

// TestOpenAPIUsesWhatIsChecked: references lead somewhere, nothing lies unused,
// and no schema has a keyword that the validator would not look at.
func TestOpenAPIUsesWhatIsChecked(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	used := map[string]bool{}
	var walk func(v any, at string)
	walk = func(v any, at string) {
		switch v := v.(type) {
		case []any:
			for i, e := range v {
				walk(e, fmt.Sprintf("%s/%d", at, i))
			}
		case map[string]any:
			if ref, is := v["$ref"].(string); is {
				used[ref] = true
				if _, err := d.resolve(ref); err != nil {
					t.Errorf("%s: %v", at, err)
				}
			}
			for name, e := range v {
				walk(e, at+"/"+name)
			}
		}
	}
	walk(d.root, "#")
	components, _ := d.at(d.root, "components").(map[string]any)
	for kind, members := range components {
		for name := range members.(map[string]any) {
			if ref := "#/components/" + kind + "/" + name; !used[ref] {
				t.Errorf("%s is not used", ref)
			}
		}
	}
	d.eachSchema(d.root, func(schema map[string]any) {
		// Any value does: that the keywords are known is the point.
		for _, v := range []any{nil, true, json.Number("1"), "a", []any{}, map[string]any{}} {
			if err := d.check(schema, v, "value"); err != nil && strings.Contains(err.Error(), "not known to the test's validator") {
				t.Errorf("%s: %v", text(schema), err)
				return
			}
		}
	})
}

// eachSchema visits every schema of the document, and those inside them.
func (d described) eachSchema(v any, f func(map[string]any)) {
	var inside func(v any)
	inside = func(v any) {
		schema, is := v.(map[string]any)
		if !is {
			return
		}
		f(schema)
		for _, keyword := range []string{"oneOf", "anyOf", "allOf"} {
			list, _ := schema[keyword].([]any)
			for _, one := range list {
				inside(one)
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for _, one := range properties {
			inside(one)
		}
		inside(schema["items"])
		inside(schema["additionalProperties"])
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				switch name {
				case "schema":
					inside(e)
				case "schemas":
					for _, one := range e.(map[string]any) {
						inside(one)
					}
				default:
					walk(e)
				}
			}
		}
	}
	walk(v)
}

func TestFragmentsMayNotDefineTheSame(t *testing.T) {
	t.Parallel()
	top := `{"openapi":"3.1.0","info":{"title":"t"},"paths":{"/a":{"get":{}}},"components":{"schemas":{"A":{}}}}`
	f := func(other string, fits bool) {
		t.Helper()
		_, err := document(fstest.MapFS{
			"openapi/all.json": {Data: []byte(top)}, "openapi/b.json": {Data: []byte(other)},
		}, "v")
		if (err == nil) != fits {
			t.Errorf("%s: %v", other, err)
		}
	}
	f(`{"paths":{"/a":{"post":{}}},"components":{"schemas":{"B":{}},"responses":{"A":{}}}}`, true)
	f(`{"paths":{"/a":{"get":{}}}}`, false)
	f(`{"components":{"schemas":{"A":{}}}}`, false)
	f(`{"paths":[]}`, false)
	if _, err := document(fstest.MapFS{"openapi/b.json": {Data: []byte(`{}`)}}, "v"); err == nil {
		t.Error("a document without a head")
	}
}
