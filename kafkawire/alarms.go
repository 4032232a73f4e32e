package kafkawire

// alarms is a heap of groups by the time of their next tick.
type alarms []*liveGroup

func (a alarms) Len() int { return len(a) }

func (a alarms) Less(i, j int) bool { return a[i].alarm.Before(a[j].alarm) }

func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].at, a[j].at = i, j
}

// Push is part of heap.Interface.
func (a *alarms) Push(x any) {
	l := x.(*liveGroup)
	l.at = len(*a)
	*a = append(*a, l)
}

// Pop is part of heap.Interface.
func (a *alarms) Pop() any {
	last := len(*a) - 1
	l := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	l.at = -1
	return l
}
