package chaos

import (
	"math"

	"github.com/anishathalye/porcupine"
)

// nowhere is the place of a message that is not stored.
const nowhere = int64(-1)

// idRegister is what an id of a partition is: it is stored once, and from then
// on every answer is where. The input of an attempt is where the message is in
// the end, its output the Write.
var idRegister = porcupine.Model{
	Init: func() any { return nowhere },
	Step: func(state, input, output any) (bool, any) {
		at, w := state.(int64), output.(Write)
		switch w.Outcome {
		case Stored:
			return at == nowhere, w.Offset
		case Duplicate:
			return at == w.Offset, at
		case Unknown: // it may have been stored, and nobody knows when
			if at == nowhere {
				return true, input
			}
			return true, at
		default:
			return true, at
		}
	},
	Equal: func(a, b any) bool { return a.(int64) == b.(int64) },
}

// register: the answers about each id can be put in an order that respects time
// and is that of a register which is written once. This is the same law as writes,
// names and order judge, found by search and not by our own reasoning.
func (c *checker) register(ms []*message) {
	for _, m := range ms {
		if ops := operations(m); len(ops) > 0 && !porcupine.CheckOperations(idRegister, ops) {
			c.violation("no order: the answers about %s fit no register written once", m)
		}
	}
}

// operations are the attempts at a message. One whose outcome is unknown may take
// effect at any time after its start, so the first of them can do what any other
// can, and stands for all.
func operations(m *message) (ops []porcupine.Operation) {
	at := nowhere
	if len(m.at) > 0 {
		at = m.at[0]
	}
	var unknown *porcupine.Operation
	for i, w := range m.attempts {
		op := porcupine.Operation{ClientId: i, Input: at, Output: w, Call: int64(w.Start), Return: int64(w.End)}
		switch w.Outcome {
		case Failed:
		case Unknown:
			op.Return = math.MaxInt64
			if unknown == nil || op.Call < unknown.Call {
				unknown = &op
			}
		default:
			ops = append(ops, op)
		}
	}
	if unknown != nil {
		ops = append(ops, *unknown)
	}
	return ops
}
