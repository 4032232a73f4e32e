package queen

import (
	"fmt"
	"unicode/utf8"
)

// NameBytesMax bounds the names of queues, partitions and groups.
const NameBytesMax = 249

// ValidateName checks a queue's, partition's or group's name: 1 to 249 bytes of
// UTF-8 without control characters. what names it in the error.
func ValidateName(what, name string) error {
	if why := textFault(name, NameBytesMax); why != "" {
		return fmt.Errorf("%w: the %s name %s", ErrInvalidName, what, why)
	}
	return nil
}

// textFault says why a text is not 1 to bytesMax bytes of UTF-8 without control
// characters; "" where it is.
func textFault(text string, bytesMax int) string {
	switch {
	case text == "":
		return "is empty"
	case len(text) > bytesMax:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), bytesMax)
	case !utf8.ValidString(text):
		return "is not UTF-8"
	}
	for i := range len(text) {
		if text[i] < 0x20 {
			return fmt.Sprintf("has a control character (0x%02x) at byte %d", text[i], i)
		}
	}
	return ""
}
