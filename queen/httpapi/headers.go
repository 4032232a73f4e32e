package httpapi

import (
	"queenmq/queen"
)

// headers reads {"name": "value" | null, …}, order and repeats kept, or
// [{"key" | "keyBase64": …, "value" | "valueBase64": …}, …], which can also hold
// what is not UTF-8, and is how they are answered.
func (r *reader) headers() ([]queen.Header, error) {
	text, err := r.raw()
	if err != nil {
		return nil, err
	}
	// Read again on its own: what is refused in it must not stop the outer reader.
	in := &reader{src: text, depthMax: r.depthMax}
	var hs []queen.Header
	switch in.next() {
	case '{':
		err = in.object(func(name []byte) error {
			h := queen.Header{Key: string(name)}
			if !in.null() {
				if h.Value, err = in.str(); err != nil {
					return err
				}
			}
			hs = append(hs, h)
			return nil
		})
	case '[':
		err = in.array(func(int) error {
			h, err := in.header()
			hs = append(hs, h)
			return err
		})
	default:
		err = refuse("", "must be an object of strings, or an array of {key, value}")
	}
	return hs, err
}

func (r *reader) header() (h queen.Header, err error) {
	var sawKey, sawValue bool
	err = r.object(func(name []byte) (err error) {
		var key []byte
		switch string(name) {
		case "key", "keyBase64":
			if sawKey {
				return refuse("", "is one too many")
			}
			sawKey = true
			if string(name) == "key" {
				key, err = r.str()
			} else {
				key, err = r.base64()
			}
			h.Key = string(key)
		case "value", "valueBase64":
			if sawValue {
				return refuse("", "is one too many")
			}
			sawValue = true
			switch {
			case r.null():
			case string(name) == "value":
				h.Value, err = r.str()
			default:
				h.Value, err = r.base64()
			}
		default:
			err = unknownName(r)
		}
		return err
	})
	if err == nil && !sawKey {
		err = refuse("", "key is missing")
	}
	return h, err
}
