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
	switch {
	case name == "":
		return fmt.Errorf("%w: the %s name is empty", ErrInvalidName, what)
	case len(name) > NameBytesMax:
		return fmt.Errorf("%w: the %s name has %d bytes, at most %d are allowed", ErrInvalidName, what, len(name), NameBytesMax)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: the %s name is not UTF-8", ErrInvalidName, what)
	}
	for i := range len(name) {
		if name[i] < 0x20 {
			return fmt.Errorf("%w: the %s name has a control character (0x%02x) at byte %d", ErrInvalidName, what, name[i], i)
		}
	}
	return nil
}
