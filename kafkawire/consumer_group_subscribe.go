package kafkawire

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/google/uuid"
)

// regexSubscription is a regular expression that members subscribe to.
type regexSubscription struct {
	re      *regexp.Regexp
	members int
	bytes   int         // it counts against the group's bound
	topics  []uuid.UUID // it matches in the group's image, ordered
}

// regexStepsMax bounds what an expression is compiled to: a short one that repeats much
// would take hundreds of megabytes, and a second for each name it is compared with. One
// that repeats nothing has two for each of its bytes at most.
const regexStepsMax = 2*regexLengthMax + 16

// regexStepBytes is about what a step takes.
const regexStepBytes = 64

// checkSubscription says what is wrong with an expression, or how many steps it has.
func checkSubscription(regex string) (steps int, err error) {
	parsed, err := syntax.Parse(regex, syntax.Perl)
	if err != nil {
		return 0, err
	}
	if steps = stepsOf(parsed); steps > regexStepsMax {
		return 0, fmt.Errorf("the regular expression is too large: it repeats until it has %d steps, %d are allowed", steps, regexStepsMax)
	}
	return steps, nil
}

// stepsOf is about how many instructions an expression is compiled to, large classes
// of characters counted as several.
func stepsOf(re *syntax.Regexp) int {
	within := 0
	for _, sub := range re.Sub {
		within += stepsOf(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/16
	case syntax.OpAlternate:
		return within + len(re.Sub)
	case syntax.OpRepeat: // at most 1,000 of each, and of what is repeated in it together
		return max(re.Min, re.Max, 1) * (within + 1)
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpConcat:
		return within + 2
	default:
		return 1
	}
}

// compileSubscription makes sense of a subscription, which must match whole names.
func compileSubscription(regex string) (*regexSubscription, error) {
	steps, err := checkSubscription(regex)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile("^(?:" + regex + ")$")
	return &regexSubscription{re: re, bytes: steps * regexStepBytes}, err
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
		var err error
		if s, err = compileSubscription(m.regex); err != nil {
			panic("BUG: a regular expression that was not checked: " + err.Error())
		}
		s.resolve(nil, g.image)
		g.regexes[m.regex] = s
		g.bytes += s.bytes
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
			g.bytes -= s.bytes
		}
	}
}

// resolve finds the topics it matches, knowing those it matched in the image before.
func (s *regexSubscription) resolve(before, image *topicImage) {
	had := s.topics
	s.topics = nil
	if image == nil {
		return
	}
	for name, t := range image.byName {
		matches := false
		if before != nil && before.byName[name].id == t.id {
			_, matches = slices.BinarySearchFunc(had, t.id, compareIDs)
		} else {
			matches = s.re.MatchString(name)
		}
		if matches {
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
		for _, s := range g.regexes {
			s.resolve(g.image, image)
		}
		g.image = image
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
