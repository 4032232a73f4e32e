package httpapi

import (
	"math"

	"queenmq/queen"
)

// listMax bounds the elements of an answer that is a list, and is what one has at most
// where the request does not say.
const listMax = queen.LagPageMax

// listPage is the part of a list that a request asks for, and how far its answer has come.
type listPage struct {
	filter        string
	limit, offset int
	total, shown  int // elements of the list so far, and those of the page among them
}

// readPage reads a request's limit and offset, and its filter, which has this name.
func readPage(query, filter string) (p listPage, err error) {
	p.limit = listMax
	err = eachParam(query, func(name, v string) (err error) {
		switch name {
		case filter:
			p.filter = v
		case "limit":
			p.limit, err = number(v, 0, listMax)
		case "offset":
			p.offset, err = number(v, 0, math.MaxInt32)
		default:
			err = noSuchParam()
		}
		return err
	})
	return p, err
}

// span counts the next n elements of the list, and says which of them are of the page:
// count of them after the first from.
func (p *listPage) span(n int) (from, count int) {
	from = max(p.offset-p.total, 0)
	p.total += n
	count = max(min(n-from, p.limit-p.shown), 0)
	p.shown += count
	return from, count
}

// next counts an element of the list, and says whether b is to have it: then it
// follows the one before.
func (p *listPage) next(b []byte) ([]byte, bool) {
	if p.total++; p.total <= p.offset || p.shown == p.limit {
		return b, false
	}
	b = appendComma(b, p.shown)
	p.shown++
	return b, true
}

// end closes the array of elements, and says how many there are in all.
func (p *listPage) end(b []byte) answer {
	b = append(b, `],"total":`...)
	return ok(append(appendInt(b, int64(p.total)), '}'))
}
