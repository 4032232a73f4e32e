package httpapi

import (
	"strconv"

	"queenmq/queen"
)

// appendValue appends a value as exactly one of three members: as it is under
// name where it is JSON text, else in base64, or a mark for null.
func appendValue(b []byte, name string, v []byte, depthMax int) []byte {
	switch {
	case v == nil:
		return append(b, `"tombstone":true`...)
	case isJSON(v, depthMax):
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		return append(b, v...)
	default:
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `Base64":`...)
		return appendBase64(b, v)
	}
}

// appendHeaders appends headers as an array of pairs, in order, repeats and
// nulls kept; null where there are none.
func appendHeaders(b []byte, headers []queen.Header) []byte {
	if len(headers) == 0 {
		return append(b, `"headers":null`...)
	}
	b = append(b, `"headers":[`...)
	for i, h := range headers {
		b = appendComma(b, i)
		b = append(b, '{')
		b = appendBytes(b, "key", "Base64", []byte(h.Key))
		b = append(b, ',')
		b = appendBytes(b, "value", "Base64", h.Value)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendPartitionID appends a partition's id: text, because clients treat it as
// opaque and some of them would read a large number as a float.
func appendPartitionID(b []byte, id int64) []byte {
	b = append(b, '"')
	b = strconv.AppendInt(b, id, 10)
	return append(b, '"')
}
