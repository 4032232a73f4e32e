package kafkawire

import (
	"maps"
	"regexp"
	"slices"

	"github.com/google/uuid"
)

// regexSubscription is a regular expression that members subscribe to.
type regexSubscription struct {
	re      *regexp.Regexp
	members int
	topics  []uuid.UUID // it matches in the group's image
}

// compileSubscription makes sense of a subscription; it must match whole names.
func compileSubscription(regex string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(regex); err != nil {
		return nil, err // of what was sent, not of what is made of it
	}
	return regexp.Compile("^(?:" + regex + ")$")
}

// regexesWithout counts the expressions that others than m subscribe to.
func (g *consumerGroup) regexesWithout(m *consumerMember) int {
	n := len(g.regexes)
	if s := g.regexes[m.regex]; s != nil && s.members == 1 && g.members[m.id] == m {
		n--
	}
	return n
}

// file enters m under its ids and counts what it subscribes to.
func (g *consumerGroup) file(m *consumerMember) {
	g.members[m.id] = m
	if m.instance != "" {
		g.static[m.instance] = m.id
	}
	g.bytes += m.size()
	for _, name := range m.names {
		g.names[name]++
	}
	if m.regex == "" {
		return
	}
	s := g.regexes[m.regex]
	if s == nil {
		re, err := compileSubscription(m.regex)
		if err != nil {
			panic("BUG: a regular expression that was not checked: " + err.Error())
		}
		s = &regexSubscription{re: re}
		s.resolve(g.image)
		g.regexes[m.regex] = s
	}
	s.members++
}

// unfile undoes file.
func (g *consumerGroup) unfile(m *consumerMember) {
	delete(g.members, m.id)
	if m.instance != "" {
		delete(g.static, m.instance)
	}
	g.bytes -= m.size()
	for _, name := range m.names {
		if g.names[name]--; g.names[name] == 0 {
			delete(g.names, name)
		}
	}
	if s := g.regexes[m.regex]; s != nil {
		if s.members--; s.members == 0 {
			delete(g.regexes, m.regex)
		}
	}
}

// resolve finds the topics it matches.
func (s *regexSubscription) resolve(image *topicImage) {
	s.topics = nil
	if image == nil {
		return
	}
	for name, t := range image.byName {
		if s.re.MatchString(name) {
			s.topics = append(s.topics, t.id)
		}
	}
	slices.SortFunc(s.topics, compareIDs)
}

// meet looks at the topics there are, and at what is subscribed to if that has
// changed; it reports whether those that the group
// subscribes to are others, or have another number of partitions.
func (g *consumerGroup) meet(image *topicImage, subscribed bool) bool {
	if image == g.image && !subscribed {
		return false
	}
	if image != g.image {
		g.image = image
		for _, s := range g.regexes {
			s.resolve(image)
		}
	}
	topics := g.subscribed()
	if maps.Equal(topics, g.topics) {
		return false
	}
	g.topics = topics
	return true
}

// subscribed are the topics that somebody subscribes to, with their partitions.
func (g *consumerGroup) subscribed() map[uuid.UUID]int32 {
	topics := map[uuid.UUID]int32{}
	for name := range g.names {
		if t, ok := g.image.byName[name]; ok {
			topics[t.id] = t.partitions
		}
	}
	for _, s := range g.regexes {
		for _, id := range s.topics {
			topics[id] = g.image.byName[g.image.names[id]].partitions
		}
	}
	return topics
}

// topicsOf are the topics a member subscribes to, ordered.
func (g *consumerGroup) topicsOf(m *consumerMember) []uuid.UUID {
	var ids []uuid.UUID
	for _, name := range m.names {
		if t, ok := g.image.byName[name]; ok {
			ids = append(ids, t.id)
		}
	}
	if s := g.regexes[m.regex]; s != nil {
		ids = append(ids, s.topics...)
	}
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}
