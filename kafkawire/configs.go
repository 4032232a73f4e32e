package kafkawire

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

// describeConfigs answers DescribeConfigs (32) v0–4 for topics and brokers. A
// topic shows every config there is, a broker those that tools look up; what is
// not known is left out. A broker tells of itself and, since all are alike,
// of any other that lives. Other resources have no configs here. A resource that is
// named again is described once, where Kafka does each time: some ten bytes of a
// request for some ten KB of an answer would have no bound.
func (c *conn) describeConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	seen := make(map[resource]bool, len(req.Resources))
	for _, res := range req.Resources {
		of := resource{res.ResourceType, res.ResourceName}
		if seen[of] {
			continue
		}
		seen[of] = true
		rr := kmsg.NewDescribeConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = res.ResourceType, res.ResourceName
		configs, err := c.describeResource(ctx, res)
		if err != nil {
			rr.ErrorCode, rr.ErrorMessage = codeOf(c.note(r, err)), message(err)
		}
		for _, rc := range configs {
			if len(res.ConfigNames) > 0 && !slices.Contains(res.ConfigNames, rc.Name) {
				continue
			}
			if !req.IncludeSynonyms {
				rc.ConfigSynonyms = nil
			}
			if !req.IncludeDocumentation {
				rc.Documentation = nil
			}
			rr.Configs = append(rr.Configs, rc)
		}
		resp.Resources = append(resp.Resources, rr)
	}
	return resp, nil
}

func (c *conn) describeResource(ctx context.Context, res kmsg.DescribeConfigsRequestResource) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	switch res.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if !legalTopic(res.ResourceName) {
			return nil, fmt.Errorf("%w: %q is no legal topic name", queen.ErrInvalidName, res.ResourceName)
		}
		got, err := c.srv.engine.Queues(ctx, []queen.QueueRef{{Name: res.ResourceName}})
		if err == nil {
			err = got[0].Err
		}
		if err != nil {
			return nil, err
		}
		return describeTopic(&got[0].Queue.Options), nil
	case kmsg.ConfigResourceTypeBroker:
		if res.ResourceName == "" {
			return nil, nil // defaults set for the whole cluster: none can be
		}
		if err := c.checkBroker(res.ResourceName); err != nil {
			return nil, err
		}
		return c.srv.describeBroker(res.ResourceName), nil
	}
	return nil, fmt.Errorf("%w: resources of type %d have no configs here", queen.ErrInvalidRequest, res.ResourceType)
}

func (c *conn) checkBroker(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return fmt.Errorf("%w: broker id must be an integer, but it is: %s", queen.ErrInvalidRequest, name)
	}
	cl := c.srv.engine.Cluster()
	if !slices.ContainsFunc(brokers(cl), func(b queen.Broker) bool { return b.ID == int32(id) }) {
		return fmt.Errorf("%w: unexpected broker id, expected %d or empty string, but received %s", queen.ErrInvalidRequest, cl.Self, name)
	}
	return nil
}

// describeTopic tells all configs of a topic.
func describeTopic(o *queen.QueueOptions) []kmsg.DescribeConfigsResponseResourceConfig {
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(topicConfigs))
	for i := range topicConfigs {
		row := &topicConfigs[i]
		v, source := row.value(o)
		rc := describedConfig(row.name, v, source, row.kind)
		rc.Documentation = &row.doc
		if source == kmsg.ConfigSourceDynamicTopicConfig {
			rc.ConfigSynonyms = append(rc.ConfigSynonyms, synonym(row.name, v, source))
		}
		if row.broker != "" {
			rc.ConfigSynonyms = append(rc.ConfigSynonyms, synonym(row.broker, row.def, kmsg.ConfigSourceDefaultConfig))
		}
		out = append(out, rc)
	}
	return out
}

func describedConfig(name, v string, source kmsg.ConfigSource, kind kmsg.ConfigType) kmsg.DescribeConfigsResponseResourceConfig {
	rc := kmsg.NewDescribeConfigsResponseResourceConfig()
	rc.Name, rc.Value, rc.Source, rc.ConfigType = name, &v, source, kind
	rc.IsDefault = source == kmsg.ConfigSourceDefaultConfig
	return rc
}

func synonym(name, v string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	s.Name, s.Value, s.Source = name, &v, source
	return s
}

// incrementalAlterConfigs answers IncrementalAlterConfigs (44) v0–1: topics only.
func (c *conn) incrementalAlterConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	times := make(map[resource]int)
	for _, res := range req.Resources {
		times[resource{res.ResourceType, res.ResourceName}]++
	}
	for _, res := range req.Resources {
		rr := kmsg.NewIncrementalAlterConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = res.ResourceType, res.ResourceName
		of := resource{res.ResourceType, res.ResourceName}
		err := c.alterable(of, times[of])
		if err == nil {
			err = c.alterIncrementally(ctx, res, req.ValidateOnly)
		}
		if err != nil {
			rr.ErrorCode, rr.ErrorMessage = codeOf(c.note(r, err)), message(err)
		}
		resp.Resources = append(resp.Resources, rr)
	}
	return resp, nil
}

// resource names what configs belong to.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// alterable refuses whatever is not one topic, named once.
func (c *conn) alterable(r resource, times int) error {
	switch {
	case times > 1:
		return fmt.Errorf("%w: each resource must appear at most once", queen.ErrInvalidRequest)
	case r.kind == kmsg.ConfigResourceTypeBroker:
		if r.name != "" {
			if err := c.checkBroker(r.name); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: cannot update configs of a broker dynamically; they are flags of its process", queen.ErrInvalidRequest)
	case r.kind != kmsg.ConfigResourceTypeTopic:
		return fmt.Errorf("%w: resources of type %d have no configs here", queen.ErrInvalidRequest, r.kind)
	case r.name == "":
		return fmt.Errorf("%w: default topic resources are not allowed", queen.ErrInvalidRequest)
	case !legalTopic(r.name):
		return fmt.Errorf("%w: %q is no legal topic name", queen.ErrInvalidName, r.name)
	}
	return nil
}

func (c *conn) alterIncrementally(ctx context.Context, res kmsg.IncrementalAlterConfigsRequestResource, validate bool) error {
	p := queen.OptionsPatch{Merge: true, Existing: true, Validate: validate}
	seen := make(map[string]bool)
	for _, rc := range res.Configs {
		if seen[rc.Name] {
			return fmt.Errorf("%w: error due to duplicate config keys: %s", queen.ErrInvalidRequest, rc.Name)
		}
		seen[rc.Name] = true
		if rc.Op != kmsg.IncrementalAlterConfigOpDelete && rc.Value == nil {
			return fmt.Errorf("%w: null value not supported for: %s", queen.ErrInvalidRequest, rc.Name)
		}
	}
	for _, rc := range res.Configs {
		row := topicConfigOf(rc.Name)
		if row == nil {
			if rc.Op == kmsg.IncrementalAlterConfigOpDelete {
				continue // it is not there
			}
			return unknownTopicConfig(rc.Name)
		}
		value := rc.Value
		switch rc.Op {
		case kmsg.IncrementalAlterConfigOpSet:
		case kmsg.IncrementalAlterConfigOpDelete:
			row.put(&p, nil)
			continue
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if row.kind != kmsg.ConfigTypeList {
				return fmt.Errorf("%w: can't %s to key %s because its type is not LIST", queen.ErrInvalidConfig, rc.Op, row.name)
			}
			changed, err := c.changeList(ctx, res.ResourceName, row, rc)
			if err != nil {
				return err
			}
			value = &changed
		default:
			return fmt.Errorf("%w: unknown operation %d for %s", queen.ErrInvalidRequest, rc.Op, row.name)
		}
		v, err := row.check(*value)
		if err != nil {
			return err
		}
		row.put(&p, &v)
	}
	_, err := c.srv.engine.Configure(ctx, res.ResourceName, p)
	return err
}

// changeList is a list's value with elements added or taken away.
func (c *conn) changeList(ctx context.Context, topic string, row *topicConfig, rc kmsg.IncrementalAlterConfigsRequestResourceConfig) (string, error) {
	got, err := c.srv.engine.Queues(ctx, []queen.QueueRef{{Name: topic}})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return "", err
	}
	now, _ := row.value(&got[0].Queue.Options)
	list := row.elements(now)
	for _, e := range row.elements(*rc.Value) {
		i := slices.Index(list, e)
		switch {
		case rc.Op == kmsg.IncrementalAlterConfigOpAppend && i < 0:
			list = append(list, e)
		case rc.Op == kmsg.IncrementalAlterConfigOpSubtract && i >= 0:
			list = slices.Delete(list, i, i+1)
		}
	}
	return strings.Join(list, ","), nil
}

// alterConfigs answers AlterConfigs (33) v0–2: what is not named goes back to
// its default, but for the configs of deduplication: a tool that does not know
// them must not switch it off by leaving them out.
func (c *conn) alterConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.body.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	times := make(map[resource]int)
	for _, res := range req.Resources {
		times[resource{res.ResourceType, res.ResourceName}]++
	}
	for _, res := range req.Resources {
		rr := kmsg.NewAlterConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = res.ResourceType, res.ResourceName
		of := resource{res.ResourceType, res.ResourceName}
		err := c.alterable(of, times[of])
		if err == nil {
			err = c.replaceConfigs(ctx, res, req.ValidateOnly)
		}
		if err != nil {
			rr.ErrorCode, rr.ErrorMessage = codeOf(c.note(r, err)), message(err)
		}
		resp.Resources = append(resp.Resources, rr)
	}
	return resp, nil
}

func (c *conn) replaceConfigs(ctx context.Context, res kmsg.AlterConfigsRequestResource, validate bool) error {
	p := queen.OptionsPatch{Merge: true, Existing: true, Validate: validate}
	for i := range topicConfigs {
		if row := &topicConfigs[i]; !strings.HasPrefix(row.name, "queen.") {
			row.put(&p, nil)
		}
	}
	seen := make(map[string]bool)
	for _, rc := range res.Configs {
		row := topicConfigOf(rc.Name)
		switch {
		case seen[rc.Name]:
			return fmt.Errorf("%w: error due to duplicate config keys: %s", queen.ErrInvalidRequest, rc.Name)
		case rc.Value == nil:
			return fmt.Errorf("%w: null value not supported for: %s", queen.ErrInvalidRequest, rc.Name)
		case row == nil:
			return unknownTopicConfig(rc.Name)
		}
		seen[rc.Name] = true
		v, err := row.check(*rc.Value)
		if err != nil {
			return err
		}
		row.put(&p, &v)
	}
	_, err := c.srv.engine.Configure(ctx, res.ResourceName, p)
	return err
}

// brokerConfig is a config of a broker that tools look up.
type brokerConfig struct {
	name, value string
	source      kmsg.ConfigSource
	kind        kmsg.ConfigType
}

// describeBroker tells the configs of a broker: how it was started, and the
// defaults that topics fall back to. None can be changed while it runs.
func (s *Server) describeBroker(id string) []kmsg.DescribeConfigsResponseResourceConfig {
	static, def := kmsg.ConfigSourceStaticBrokerConfig, kmsg.ConfigSourceDefaultConfig
	g := s.cfg.Groups
	rows := []brokerConfig{
		{"broker.id", id, static, kmsg.ConfigTypeInt},
		{"node.id", id, static, kmsg.ConfigTypeInt},
		{"auto.create.topics.enable", strconv.FormatBool(s.cfg.AutoCreate), static, kmsg.ConfigTypeBoolean},
		{"num.partitions", strconv.Itoa(s.cfg.DefaultPartitions), static, kmsg.ConfigTypeInt},
		{"default.replication.factor", "1", def, kmsg.ConfigTypeInt},
		{"delete.topic.enable", "true", def, kmsg.ConfigTypeBoolean},
		{"log.retention.hours", "168", def, kmsg.ConfigTypeInt},
		{"log.retention.ms", strconv.FormatInt(queen.TopicRetentionMs, 10), def, kmsg.ConfigTypeLong},
		{"offsets.topic.replication.factor", "1", def, kmsg.ConfigTypeShort},
		{"transaction.state.log.replication.factor", "1", def, kmsg.ConfigTypeShort},
		{"transaction.state.log.min.isr", "1", def, kmsg.ConfigTypeInt},
		{"offsets.retention.minutes", strconv.FormatInt(int64((g.OffsetsRetention+time.Minute-1)/time.Minute), 10), static, kmsg.ConfigTypeInt},
		{"offsets.retention.check.interval.ms", strconv.FormatInt(g.expiryEvery().Milliseconds(), 10), def, kmsg.ConfigTypeLong},
		{"offset.metadata.max.bytes", strconv.Itoa(g.OffsetMetadataBytesMax), static, kmsg.ConfigTypeInt},
		{"socket.request.max.bytes", strconv.Itoa(s.cfg.ProduceBytesMax), static, kmsg.ConfigTypeInt},
		{"fetch.max.bytes", strconv.Itoa(s.cfg.FetchBytesMax), static, kmsg.ConfigTypeInt},
		{"group.initial.rebalance.delay.ms", strconv.FormatInt(g.InitialDelay.Milliseconds(), 10), static, kmsg.ConfigTypeInt},
		{"group.min.session.timeout.ms", strconv.FormatInt(g.SessionMin.Milliseconds(), 10), static, kmsg.ConfigTypeInt},
		{"group.max.session.timeout.ms", strconv.FormatInt(g.SessionMax.Milliseconds(), 10), static, kmsg.ConfigTypeInt},
		{"group.max.size", strconv.Itoa(g.MembersMax), static, kmsg.ConfigTypeInt},
	}
	for i := range topicConfigs {
		row := &topicConfigs[i]
		if row.broker != "" {
			rows = append(rows, brokerConfig{row.broker, row.def, def, row.kind})
		}
	}
	slices.SortFunc(rows, func(a, b brokerConfig) int { return strings.Compare(a.name, b.name) })
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(rows))
	for _, row := range rows {
		rc := describedConfig(row.name, row.value, row.source, row.kind)
		rc.ReadOnly = true
		rc.ConfigSynonyms = append(rc.ConfigSynonyms, synonym(row.name, row.value, row.source))
		doc := ""
		rc.Documentation = &doc
		out = append(out, rc)
	}
	return out
}
