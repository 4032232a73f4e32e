package kafkawire

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"queenmq/queen"
)

// topicImage is the topics there were at one moment, as consumer groups see
// them. It never changes; another moment is another image.
type topicImage struct {
	byName map[string]imageTopic
	names  map[uuid.UUID]string
}

// imageTopic is what assigning needs to know of a topic.
type imageTopic struct {
	id         uuid.UUID
	partitions int32
}

// imageOf makes an image; it leaves out what Kafka clients do not see.
func imageOf(queues []queen.Queue, partitionsMax int) *topicImage {
	img := &topicImage{byName: make(map[string]imageTopic, len(queues)), names: make(map[uuid.UUID]string, len(queues))}
	for _, q := range queues {
		if legalTopic(q.Name) && q.Partitions <= partitionsMax {
			img.byName[q.Name] = imageTopic{q.TopicID, int32(q.Partitions)}
			img.names[q.TopicID] = q.Name
		}
	}
	return img
}

// topicImages keeps the newest image for all groups of this broker. It costs
// one statement when the catalog has changed and somebody looks, and no more
// than one a second but for those who ask for a fresh one.
type topicImages struct {
	engine        Engine // immutable
	partitionsMax int    // immutable
	every         time.Duration

	loading chan struct{} // room for one: who has put something in, loads

	mu      sync.Mutex
	image   *topicImage
	version int64     // of the catalog when image was asked for
	began   time.Time // when image was asked for
	tried   time.Time // when any was, whatever came of it
}

// imageMax bounds the wait for an image.
const imageMax = 10 * time.Second

func newTopicImages(e Engine, partitionsMax int) *topicImages {
	return &topicImages{engine: e, partitionsMax: partitionsMax, every: time.Second, loading: make(chan struct{}, 1)}
}

// current answers the newest image, a newer one if the catalog is known to have
// changed since. While one is being made, or cannot be, an older one has to do:
// members keep what they have, and no heartbeat waits behind another.
func (t *topicImages) current(ctx context.Context) (*topicImage, error) {
	t.mu.Lock()
	image, changed := t.image, t.version != t.engine.CatalogVersion() && time.Since(t.tried) >= t.every
	t.mu.Unlock()
	switch {
	case image == nil:
		return t.fresh(ctx)
	case !changed:
		return image, nil
	}
	select {
	case t.loading <- struct{}{}:
		defer func() { <-t.loading }()
	default:
		return image, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, imageMax, queen.ErrTimedOut)
	defer cancel()
	if newer, err := t.load(ctx); err == nil {
		return newer, nil
	}
	return image, nil // the next heartbeat tries again
}

// fresh answers an image that was asked for after the call began, so that a
// topic made before it is there. Callers that meet share one statement.
func (t *topicImages) fresh(ctx context.Context) (*topicImage, error) {
	at := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, imageMax, queen.ErrTimedOut)
	defer cancel()
	select {
	case t.loading <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.loading }()
	t.mu.Lock()
	image, began := t.image, t.began
	t.mu.Unlock()
	if image != nil && began.After(at) {
		return image, nil
	}
	return t.load(ctx)
}

// load makes an image; the caller has put something into loading.
func (t *topicImages) load(ctx context.Context) (*topicImage, error) {
	began, version := time.Now(), t.engine.CatalogVersion()
	t.mu.Lock()
	t.tried = began
	t.mu.Unlock()
	queues, err := t.engine.AllQueues(ctx)
	if err != nil {
		return nil, err
	}
	image := imageOf(queues, t.partitionsMax)
	t.mu.Lock()
	t.image, t.began, t.version = image, began, version
	t.mu.Unlock()
	return image, nil
}
