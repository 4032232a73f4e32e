package queen

import (
	"context"
	"fmt"
)

// Pop leases a batch.
func (e *Engine) Pop(context.Context, PopRequest) (Popped, error) {
	return Popped{}, fmt.Errorf("%w: pop is not served yet", ErrInvalidRequest)
}

// Ack answers one Acked per ack, in order.
func (e *Engine) Ack(_ context.Context, acks []Ack) []Acked {
	out := make([]Acked, len(acks))
	for i := range out {
		out[i].Err = fmt.Errorf("%w: ack is not served yet", ErrInvalidRequest)
	}
	return out
}
