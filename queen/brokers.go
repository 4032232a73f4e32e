package queen

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"queenmq/store"
)

// BrokerConfig is how this process presents itself.
type BrokerConfig struct {
	// ID asks for a broker id; −1 takes the lowest free one, from 1.
	ID int32
	// Instance is this process's identity; Predecessor is the one that last used
	// the same data folder, whose id may be taken over at once.
	Instance, Predecessor uuid.UUID
	Host                  string // as clients reach it
	Port                  int32
	PeerAddr              string // host:port, as other brokers reach its Kafka door; empty: they do not
	Version               string
}

// brokers keeps this process registered, knows its live peers, and holds its
// share of the slots of the group coordinator.
//
// A slot needs no renewal of its own: it is its owner's while the owner's heartbeat
// is fresh. The database judges that by its clock; this process goes by its own
// and counts from before it sent the heartbeat, so it stops first.
type brokers struct {
	db    *store.DB
	cfg   BrokerConfig
	log   *slog.Logger
	every time.Duration

	again  atomic.Bool  // registering again, by whoever noticed first
	writes atomic.Int64 // begun under slots of this process: Fence.Serial

	mu       sync.RWMutex
	self     int32
	live     []store.BrokerRow // ordered by id
	slots    [store.GroupSlots]store.SlotRow
	until    time.Time // until then nobody else can have taken a slot of ours
	resigned bool      // this broker is about to end: off the list, without slots

	turn sync.Mutex // a round at a time
}

// heartbeatEvery is how often a broker says that it lives; the database calls
// it dead after five of these.
const heartbeatEvery = time.Second

func openBrokers(ctx context.Context, cfg Config) (*brokers, error) {
	b := &brokers{db: cfg.DB, cfg: cfg.Broker, log: cfg.Log, every: heartbeatEvery}
	if b.cfg.Instance == uuid.Nil {
		b.cfg.Instance = uuid.New()
	}
	if err := b.register(ctx, b.cfg.ID); err != nil {
		return nil, err
	}
	if err := b.round(ctx); err != nil {
		return nil, fmt.Errorf("take part in the coordination of groups: %w", err)
	}
	return b, nil
}

func (b *brokers) register(ctx context.Context, wanted int32) error {
	id, err := b.db.Register(ctx, store.BrokerRow{
		Instance: b.cfg.Instance, Host: b.cfg.Host, Port: b.cfg.Port, PeerAddr: b.cfg.PeerAddr, Version: b.cfg.Version,
	}, wanted, b.cfg.Predecessor)
	if err != nil {
		return fmt.Errorf("register this broker: %w", err)
	}
	b.mu.Lock()
	b.self = id
	b.mu.Unlock()
	return nil
}

// look reads the list of live brokers, and who has which slot.
func (b *brokers) look(ctx context.Context) error {
	live, err := b.db.LiveBrokers(ctx)
	if err != nil {
		return err
	}
	slots, err := b.db.Slots(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.live, b.slots = live, slots
	b.mu.Unlock()
	return nil
}

// round is what a broker does each second: it says that it lives, looks around,
// and takes or gives away what is not where it belongs. Slots seen after a
// heartbeat that counted are this broker's until store.BrokerDeadAfter later.
func (b *brokers) round(ctx context.Context) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	if b.isResigned() {
		return nil
	}
	began := time.Now()
	if err := b.beat(ctx); err != nil {
		return err
	}
	if err := b.look(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	b.until = began.Add(store.BrokerDeadAfter)
	b.mu.Unlock()
	return b.settle(ctx)
}

// settle brings slots to where they belong.
func (b *brokers) settle(ctx context.Context) error {
	b.mu.Lock()
	moves := slotMoves(b.cfg.Instance, &b.slots, b.live)
	for slot := range moves {
		if b.slots[slot].Owner == b.cfg.Instance {
			b.slots[slot].Owner = uuid.Nil // whatever becomes of the call, we have stopped
		}
	}
	b.mu.Unlock()
	if len(moves) == 0 {
		return nil
	}
	moved, err := b.db.AssignSlots(ctx, b.cfg.Instance, moves)
	if err != nil {
		return err
	}
	b.log.Debug("slots of the group coordinator changed hands", "slots", moved)
	return b.look(ctx)
}

// resign takes this broker off the list, for good, and gives its slots to those
// that are left.
func (b *brokers) resign(ctx context.Context) error {
	b.mu.Lock()
	b.resigned = true
	b.mu.Unlock()
	b.turn.Lock()
	defer b.turn.Unlock()
	err := b.db.Unregister(ctx, b.current(), b.cfg.Instance)
	if err == nil {
		err = b.look(ctx)
	}
	if err == nil {
		err = b.settle(ctx)
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) {
		b.log.Warn("not unregistered; the others will miss this broker's heartbeats", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("unregister this broker: %w", err)
	}
	return nil
}

// coordinator answers from memory.
func (b *brokers) coordinator(group string) Coordination {
	slot := slotOf(group)
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := b.slots[slot]
	c := Coordination{Fence: Fence{Slot: slot, Epoch: s.Epoch}, Broker: Broker{ID: -1, Port: -1}}
	if c.InDoubt = !time.Now().Before(b.until); c.InDoubt || s.Owner == uuid.Nil {
		return c
	}
	if c.Mine = s.Owner == b.cfg.Instance && !b.resigned; c.Mine {
		c.Broker, c.Known = Broker{ID: b.self, Host: b.cfg.Host, Port: b.cfg.Port}, true
		return c
	}
	for _, r := range b.live {
		if r.Instance == s.Owner && r.Instance != b.cfg.Instance {
			c.Broker, c.Known = Broker{ID: r.ID, Host: r.Host, Port: r.Port, PeerAddr: r.PeerAddr}, true
		}
	}
	return c
}

// begun numbers a write under a slot as its request comes, so that one which is late
// does not undo what was begun after it.
func (b *brokers) begun(under Fence) Fence {
	if under.Epoch != 0 {
		under.Serial = b.writes.Add(1)
	}
	return under
}

// beat says that this broker lives. Where its row is gone (it was paused and
// its id given away), it registers anew.
func (b *brokers) beat(ctx context.Context) error {
	if b.isResigned() {
		return nil
	}
	self := b.current()
	ok, err := b.db.Heartbeat(ctx, self, b.cfg.Instance)
	if err != nil {
		return err
	}
	if ok || !b.again.CompareAndSwap(false, true) { // two would take two ids
		return nil
	}
	defer b.again.Store(false)
	if b.current() != self {
		return nil // registered again since the question
	}
	if err := b.register(ctx, -1); err != nil {
		return err
	}
	if err := b.look(ctx); err != nil {
		return err
	}
	b.log.Warn("this broker lost its id and took another", "id", b.current(), "was", self, "cause", b.whyLost(self))
	return nil
}

func (b *brokers) current() int32 {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.self
}

func (b *brokers) isResigned() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.resigned
}

// whyLost is what is known about how an id of this broker came to be another's.
func (b *brokers) whyLost(id int32) string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, r := range b.live {
		if r.ID == id && r.Instance != b.cfg.Instance {
			return fmt.Sprintf("the broker at %s:%d has it: it was started on this one's identity, or this one was silent for more than %v",
				r.Host, r.Port, store.BrokerDeadAfter)
		}
	}
	return "nobody has it: its row was removed"
}

func (b *brokers) run(ctx context.Context) {
	t := time.NewTicker(b.every)
	defer t.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		call, cancel := context.WithTimeout(ctx, 3*b.every)
		err := b.round(call)
		cancel()
		if err != nil && ctx.Err() == nil && !told(err) && time.Since(last) >= time.Second {
			last = time.Now()
			b.log.Warn("heartbeat failed; will retry", "error", err)
		}
	}
}

// alone says whether no other broker is alive.
func (b *brokers) alone() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.live) <= 1
}

// takes says whether background work on a partition falls to this broker: the
// live ones share them out by rendezvous. Two may think so for a moment.
func (b *brokers) takes(partition int64) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	weight := func(broker int32) uint64 { return mix(uint64(partition)<<20 ^ uint64(uint32(broker))) }
	mine := weight(b.self)
	for _, r := range b.live {
		if r.ID != b.self && weight(r.ID) > mine {
			return false
		}
	}
	return true
}

// cluster answers from memory.
func (b *brokers) cluster() Cluster {
	b.mu.RLock()
	defer b.mu.RUnlock()
	inc := b.db.Incarnation()
	c := Cluster{ID: base64.RawURLEncoding.EncodeToString(inc.ClusterID[:]), Self: b.self, Epoch: inc.Epoch}
	slots := make(map[uuid.UUID]int, len(b.live))
	for _, s := range b.slots {
		slots[s.Owner]++
	}
	seen := false
	for _, r := range b.live {
		c.Brokers = append(c.Brokers, Broker{ID: r.ID, Host: r.Host, Port: r.Port, PeerAddr: r.PeerAddr, Slots: slots[r.Instance]})
		seen = seen || r.ID == b.self
	}
	if !seen { // our own heartbeat is late: we still serve
		c.Brokers = append(c.Brokers, Broker{ID: b.self, Host: b.cfg.Host, Port: b.cfg.Port})
	}
	return c
}
