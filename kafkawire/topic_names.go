package kafkawire

// topicNameMax is Kafka's bound on a topic name.
const topicNameMax = 249

// legalTopic says whether a name is one that Kafka's clients accept. Queues
// with other names exist for the native API and are hidden here.
func legalTopic(name string) bool {
	if name == "" || len(name) > topicNameMax || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return true
}
