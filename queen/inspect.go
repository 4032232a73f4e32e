package queen

import (
	"context"
	"time"
)

// SizeAnswer is how many bytes a partition holds, as served.
type SizeAnswer struct {
	Err  error
	Size int64
}

// Sizes answers one SizeAnswer per partition, from the database.
func (e *Engine) Sizes(ctx context.Context, refs []PartitionRef) ([]SizeAnswer, error) {
	out := make([]SizeAnswer, len(refs))
	ids := make([]int64, 0, len(refs))
	at := make([]int, 0, len(refs))
	look := e.catalog.lookups(len(refs), func(i int) QueueRef { return refs[i].Queue })
	for i, r := range refs {
		p, err := look.partition(ctx, r)
		if err != nil {
			out[i].Err = err
			continue
		}
		ids, at = append(ids, p.id), append(at, i)
	}
	if len(ids) == 0 {
		return out, nil
	}
	sizes, err := e.db.Sizes(ctx, ids)
	if err != nil {
		return nil, storeError("read sizes", err)
	}
	for k, i := range at {
		out[i].Size = sizes[k]
	}
	return out, nil
}

// ActiveProducer is an idempotent producer as a partition remembers it.
type ActiveProducer struct {
	ProducerID
	LastSequence int32
	LastWrite    time.Time // by the database's clock
}

// activeProducersMax bounds what is told of one partition.
const activeProducersMax = 10_000

// Producers lists the idempotent producers of a partition that are not forgotten, by
// id, the first 10,000.
func (e *Engine) Producers(ctx context.Context, ref PartitionRef) ([]ActiveProducer, error) {
	p, err := e.catalog.partition(ctx, ref)
	if err != nil {
		return nil, err
	}
	rows, err := e.db.Producers(ctx, p.id, producerSeconds, activeProducersMax)
	if err != nil {
		return nil, storeError("list producers", err)
	}
	out := make([]ActiveProducer, len(rows))
	for i, r := range rows {
		out[i] = ActiveProducer{ProducerID: ProducerID{ID: r.ID, Epoch: int16(r.Epoch)}, LastSequence: r.LastSequence, LastWrite: r.UpdatedAt}
	}
	return out, nil
}
