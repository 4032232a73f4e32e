package bench

// batches are the messages of a load that goes in batches: each client's next
// batch goes to the next partition, and ids are never used twice.
type batches struct {
	partitions int
	batch      int
	payload    *Payload
	ids        IDKind
	next       []uint64 // per client: the number of its next message
}

// partition is where a client's next batch goes.
func (b *batches) partition(client int) int {
	return (int(b.next[client])/b.batch + client) % b.partitions
}

// room is what one client's batch is made in, again and again.
type room struct {
	ids    []string
	values [][]byte
}

func (b *batches) room() room {
	r := room{ids: make([]string, b.batch), values: make([][]byte, b.batch)}
	all := make([]byte, b.batch*b.payload.Size())
	for i := range r.values {
		r.values[i], all = all[:b.payload.Size():b.payload.Size()], all[b.payload.Size():]
	}
	return r
}

// fill makes a client's next batch, which counts once the caller has advanced next.
func (b *batches) fill(r *room, client int) {
	for k := range b.batch {
		id := idOf(client, b.next[client]+uint64(k))
		r.ids[k] = string(b.ids.appendID(nil, id))
		b.payload.Fill(r.values[k], id)
	}
}
