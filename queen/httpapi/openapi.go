package httpapi

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
)

// fragments are the parts of the OpenAPI document, one file per subject. A new
// route adds its operation to the file of its subject; openapi_test.go holds
// the table of routes, the document and the golden exchanges together.
//
//go:embed openapi/*.json
var fragments embed.FS

// fragment is one file. The top of the document is in all.json alone.
type fragment struct {
	OpenAPI    string                                `json:"openapi,omitempty"`
	Info       map[string]string                     `json:"info,omitempty"`
	Tags       []json.RawMessage                     `json:"tags,omitempty"`
	Paths      map[string]map[string]json.RawMessage `json:"paths"`      // path → method → operation
	Components map[string]map[string]json.RawMessage `json:"components"` // kind → name → what it is
}

// document merges the fragments into one OpenAPI 3.1 document. What two of them
// define is an error: one would win silently.
func document(files fs.FS, version string) ([]byte, error) {
	all := fragment{Paths: map[string]map[string]json.RawMessage{}, Components: map[string]map[string]json.RawMessage{}}
	names, err := fs.Glob(files, "openapi/*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		var f fragment
		if err := json.Unmarshal(text, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if f.OpenAPI != "" {
			all.OpenAPI, all.Info = f.OpenAPI, f.Info
		}
		all.Tags = append(all.Tags, f.Tags...)
		if err := merge(all.Paths, f.Paths); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := merge(all.Components, f.Components); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if all.Info == nil {
		return nil, fmt.Errorf("no fragment says what the document is")
	}
	all.Info["version"] = version
	return json.Marshal(all)
}

func merge(into, from map[string]map[string]json.RawMessage) error {
	for group, members := range from {
		if into[group] == nil {
			into[group] = map[string]json.RawMessage{}
		}
		for name, v := range members {
			if _, twice := into[group][name]; twice {
				return fmt.Errorf("%s %s is defined twice", group, name)
			}
			into[group][name] = v
		}
	}
	return nil
}

// openapi serves GET /api/v1/openapi.json: what this door serves, for programs.
func (s *Server) openapi(*exchange) (answer, error) {
	text, err := s.document()
	return ok(text), err
}
