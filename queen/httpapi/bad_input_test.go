package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func TestBadRequestsAreNamed(t *testing.T) {
	t.Parallel()
	const leased = `"partitionId":"1","status":"completed"`
	for name, tc := range map[string]struct {
		method, target, body string
		status               int
		code, has            string
	}{
		"pop: unknown parameter":  {"GET", "/api/v1/pop/queue/q?bacth=1", "", 400, "unknown_parameter", "bacth"},
		"pop: twice":              {"GET", "/api/v1/pop/queue/q?batch=1&batch=2", "", 400, "invalid_request", "batch: is given twice"},
		"pop: batch zero":         {"GET", "/api/v1/pop/queue/q?batch=0", "", 400, "invalid_request", "batch: must be a whole number from 1 to 10000"},
		"pop: batch large":        {"GET", "/api/v1/pop/queue/q?batch=10001", "", 400, "invalid_request", "batch"},
		"pop: batch text":         {"GET", "/api/v1/pop/queue/q?batch=1e1", "", 400, "invalid_request", "batch"},
		"pop: wait":               {"GET", "/api/v1/pop/queue/q?wait=yes", "", 400, "invalid_request", "wait: must be true or false"},
		"pop: timeout negative":   {"GET", "/api/v1/pop/queue/q?timeout=-1", "", 400, "invalid_request", "timeout"},
		"pop: timeout large":      {"GET", "/api/v1/pop/queue/q?timeout=600001", "", 400, "invalid_request", "timeout"},
		"pop: lease":              {"GET", "/api/v1/pop/queue/q?leaseSeconds=0", "", 400, "invalid_request", "leaseSeconds"},
		"pop: lease with autoAck": {"GET", "/api/v1/pop/queue/q?leaseSeconds=5&autoAck=true", "", 400, "invalid_request", "leaseSeconds"},
		"pop: mode":               {"GET", "/api/v1/pop/queue/q?subscriptionMode=old", "", 400, "invalid_request", "subscriptionMode: must be new or all"},
		"pop: from no time":       {"GET", "/api/v1/pop/queue/q?subscriptionFrom=yesterday", "", 400, "invalid_request", "subscriptionFrom: must be now or a time"},
		"pop: conflation":         {"GET", "/api/v1/pop/queue/q?conflation=true", "", 400, "not_served", "conflation"},
		"pop: nothing named":      {"GET", "/api/v1/pop?batch=1", "", 400, "invalid_request", "namespace or task is missing"},
		"pop: partitions":         {"GET", "/api/v1/pop/queue/q?partitions=0", "", 400, "invalid_request", "partitions"},
		"extend: member":          {"POST", "/api/v1/lease/x/extend", `{"seconds":1}`, 400, "unknown_field", "seconds"},
		"extend: length":          {"POST", "/api/v1/lease/x/extend", `{"leaseSeconds":43201}`, 400, "invalid_request", "leaseSeconds"},
		"extend: twice":           {"POST", "/api/v1/lease/x/extend", `{"leaseSeconds":1,"leaseSeconds":1}`, 400, "invalid_request", "given twice"},
		"pop: bad query":          {"GET", "/api/v1/pop/queue/q?batch=%zz", "", 400, "bad_query", ""},
		"pop: no queue":           {"GET", "/api/v1/pop/queue/", "", 404, "no_such_route", ""},
		"pop: HEAD would lease":   {"HEAD", "/api/v1/pop/queue/q", "", 405, "", ""},
		"pop: POST":               {"POST", "/api/v1/pop/queue/q", "", 405, "method_not_allowed", "GET"},
		"pop: NUL":                {"GET", "/api/v1/pop/queue/%00", "", 400, "invalid_name", ""},
		"pop: not UTF-8":          {"GET", "/api/v1/pop/queue/%ff", "", 400, "invalid_name", ""},
		"path: dots":              {"GET", "/api/v1/pop/queue/../../health", "", 404, "no_such_route", ""},
		"path: escaped dots":      {"GET", "/api/v1/resources/queues/..%2f..%2fhealth", "", 404, "unknown_queue", ""},
		"path: double slash":      {"GET", "//health", "", 404, "no_such_route", ""},
		"path: slash behind":      {"GET", "/health/", "", 404, "no_such_route", ""},
		"path: backslash":         {"GET", "/health%5c..", "", 404, "no_such_route", ""},
		"method: unknown":         {"BREW", "/api/v1/push", "", 405, "method_not_allowed", "POST"},
		"method: DELETE":          {"PUT", "/api/v1/resources/queues/q", "", 405, "method_not_allowed", "DELETE, GET, HEAD"},

		"push: parameter":      {"POST", "/api/v1/push?dedup=off", item(`"payload":1`), 400, "unknown_parameter", "dedup: is not known"},
		"push: bad query":      {"POST", "/api/v1/push?%zz", item(`"payload":1`), 400, "bad_query", ""},
		"push: an item alone":  {"POST", "/api/v1/push", `{"queue":"q","payload":1}`, 400, "unknown_field", `queue: is not known here: {"items":[`},
		"configure: parameter": {"POST", "/api/v1/configure?mode=merge", `{"queue":"q"}`, 400, "unknown_parameter", "mode"},
		"delete: parameter":    {"DELETE", "/api/v1/resources/queues/q?force=true", "", 400, "unknown_parameter", "force"},

		"depth: parameter":   {"GET", "/api/v1/resources/queues/q/depth?groups=g", "", 400, "unknown_parameter", "groups"},
		"depth: twice":       {"GET", "/api/v1/resources/queues/q/depth?group=g&group=h", "", 400, "invalid_request", "group: is given twice"},
		"browse: no queue":   {"GET", "/api/v1/messages", "", 400, "invalid_request", "queue is missing"},
		"browse: status":     {"GET", "/api/v1/messages?queue=q&status=failed", "", 400, "invalid_request", "status: must be pending, processing or completed"},
		"browse: time":       {"GET", "/api/v1/messages?queue=q&from=yesterday", "", 400, "invalid_request", "from: must be a time"},
		"browse: limit":      {"GET", "/api/v1/messages?queue=q&limit=1001", "", 400, "invalid_request", "limit: must be a whole number from 1 to 1000"},
		"browse: partition":  {"GET", "/api/v1/messages?queue=q&fromPartition=-1", "", 400, "invalid_request", "fromPartition: must be a whole number from 0"},
		"lagging: seconds":   {"GET", "/api/v1/consumer-groups/lagging?minLagSeconds=1.5", "", 400, "invalid_request", "minLagSeconds"},
		"delete group: word": {"DELETE", "/api/v1/consumer-groups/g?deleteMetadata=1", "", 400, "invalid_request", "deleteMetadata: must be true or false"},
		"seek: nothing":      {"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{}`, 400, "invalid_request", "exactly one of"},
		"seek: false":        {"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{"toEnd":false}`, 400, "invalid_request", "toEnd: can only be true"},
		"seek: time":         {"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{"timestamp":"now"}`, 400, "invalid_request", "timestamp: must be a time"},
		"seek: member":       {"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{"mode":"end"}`, 400, "unknown_field", "mode"},
		"seek: offset":       {"POST", "/api/v1/consumer-groups/g/queues/q/seek", `{"offset":-1,"partition":"p"}`, 400, "invalid_request", "offset: must be a whole number"},
		"refresh: member":    {"POST", "/api/v1/stats/refresh", `{"now":true}`, 400, "unknown_field", "now"},

		"ack: no id":         {"POST", "/api/v1/ack", `{` + leased + `}`, 400, "invalid_request", "transactionId is missing"},
		"ack: empty id":      {"POST", "/api/v1/ack", `{"transactionId":"",` + leased + `}`, 400, "invalid_request", "transactionId is missing"},
		"ack: no partition":  {"POST", "/api/v1/ack", `{"transactionId":"a","status":"completed"}`, 400, "invalid_request", "partitionId is missing"},
		"ack: no status":     {"POST", "/api/v1/ack", `{"transactionId":"a","partitionId":"1"}`, 400, "invalid_request", "status is missing"},
		"ack: word":          {"POST", "/api/v1/ack", `{"transactionId":"a","partitionId":"1","status":"done"}`, 400, "invalid_request", "status: must be completed, failed, retry or dlq"},
		"ack: status type":   {"POST", "/api/v1/ack", `{"transactionId":"a","partitionId":"1","status":true}`, 400, "invalid_request", "status: must be a string"},
		"ack: member":        {"POST", "/api/v1/ack", `{"transactionId":"a",` + leased + `,"x":1}`, 400, "unknown_field", "x"},
		"ack: twice":         {"POST", "/api/v1/ack", `{"transactionId":"a","transactionId":"b",` + leased + `}`, 400, "invalid_request", "given twice"},
		"ack: lease type":    {"POST", "/api/v1/ack", `{"transactionId":"a","leaseId":5,` + leased + `}`, 400, "invalid_request", "leaseId: must be a string"},
		"ack: array":         {"POST", "/api/v1/ack", `[]`, 400, "invalid_request", "must be an object"},
		"ack: trailing":      {"POST", "/api/v1/ack", `{"transactionId":"a",` + leased + `}}`, 400, "bad_json", "at byte"},
		"ack batch: missing": {"POST", "/api/v1/ack/batch", `{"consumerGroup":"g"}`, 400, "invalid_request", "acknowledgments"},
		"ack batch: member":  {"POST", "/api/v1/ack/batch", `{"acknowledgments":[],"leaseId":"x"}`, 400, "unknown_field", "leaseId"},
		"ack batch: one bad": {"POST", "/api/v1/ack/batch", `{"acknowledgments":[{"transactionId":"a",` + leased + `},{"transactionId":"a","partitionId":"1","status":"x"}]}`, 400, "invalid_request", "acknowledgments[1].status"},

		"kv: no op":             {"POST", "/api/v1/kv", kvOf(`"ns":"n","key":"k"`), 400, "invalid_request", "operations[0]: op is missing"},
		"kv: unknown op":        {"POST", "/api/v1/kv", kvOf(`"op":"set","ns":"n","key":"k"`), 400, "invalid_request", "operations[0].op: must be one of get"},
		"kv: member":            {"POST", "/api/v1/kv", kvOf(`"op":"get","ns":"n","key":"k","x":1`), 400, "unknown_field", "operations[0].x"},
		"kv: twice":             {"POST", "/api/v1/kv", kvOf(`"op":"get","op":"put","ns":"n","key":"k"`), 400, "invalid_request", "op: is given twice"},
		"kv: operations twice":  {"POST", "/api/v1/kv", `{"operations":[],"operations":[]}`, 400, "invalid_request", "operations: is given twice"},
		"kv: no operations":     {"POST", "/api/v1/kv", `{}`, 400, "invalid_request", "operations"},
		"kv: not for it":        {"POST", "/api/v1/kv", kvOf(`"op":"incr","ns":"n","key":"k","forever":true,"expect":1`), 400, "invalid_request", "operations[0].expect: is not for incr"},
		"kv: no value":          {"POST", "/api/v1/kv", kvOf(`"op":"put","ns":"n","key":"k","forever":true`), 400, "invalid_request", "value is missing"},
		"kv: no key":            {"POST", "/api/v1/kv", kvOf(`"op":"get","ns":"n"`), 400, "invalid_request", "key is missing"},
		"kv: no ns":             {"POST", "/api/v1/kv", kvOf(`"op":"get","key":"k"`), 400, "invalid_request", "ns is missing"},
		"kv: expect null":       {"POST", "/api/v1/kv", kvOf(`"op":"put","ns":"n","key":"k","value":1,"forever":true,"expect":null`), 400, "invalid_request", "operations[0].expect: must be a whole number"},
		"kv: expect text":       {"POST", "/api/v1/kv", kvOf(`"op":"delete","ns":"n","key":"k","expect":"1"`), 400, "invalid_request", "operations[0].expect"},
		"kv: ttl zero":          {"POST", "/api/v1/kv", kvOf(`"op":"put","ns":"n","key":"k","value":1,"ttlSeconds":0`), 400, "invalid_request", "operations[0].ttlSeconds"},
		"kv: ttl fraction":      {"POST", "/api/v1/kv", kvOf(`"op":"put","ns":"n","key":"k","value":1,"ttlSeconds":1.5`), 400, "invalid_request", "operations[0].ttlSeconds"},
		"kv: forever false":     {"POST", "/api/v1/kv", kvOf(`"op":"put","ns":"n","key":"k","value":1,"forever":false`), 400, "invalid_request", "can only be true"},
		"kv: delta text":        {"POST", "/api/v1/kv", kvOf(`"op":"incr","ns":"n","key":"k","delta":"1","forever":true`), 400, "invalid_request", "operations[0].delta: must be a number"},
		"kv: half a surrogate":  {"POST", "/api/v1/kv", kvOf(`"op":"get","ns":"n","key":"\ud800"`), 400, "invalid_request", "operations[0].key: holds half"},
		"kv: too many":          {"POST", "/api/v1/kv", `[` + strings.Repeat(`{"op":"get","ns":"n","key":"k"},`, 256) + `{}]`, 413, "too_many_items", "256"},
		"kv: too many keys":     {"POST", "/api/v1/kv", kvOf(`"op":"getMany","ns":"n","keys":[` + strings.Repeat(`"k",`, 256) + `"k"]`), 400, "invalid_request", "operations[0].keys[256]"},
		"kv: trailing":          {"POST", "/api/v1/kv", `[]]`, 400, "bad_json", "at byte"},
		"kv: not UTF-8":         {"POST", "/api/v1/kv", "[\"\xff\"]", 400, "bad_json", "invalid UTF-8"},
		"kv path: put op":       {"PUT", "/api/v1/kv/n/k", `{"op":"put","value":1,"forever":true}`, 400, "unknown_field", "op"},
		"kv path: put no value": {"PUT", "/api/v1/kv/n/k", `{"forever":true}`, 400, "invalid_request", "value is missing"},
		"kv path: many":         {"POST", "/api/v1/kv/n/k", `{"op":"getMany"}`, 400, "invalid_request", "op: getMany is not about one key"},
		"kv path: expect":       {"DELETE", "/api/v1/kv/n/k?expect=x", "", 400, "invalid_request", "expect: must be a whole number"},
		"kv path: expect twice": {"DELETE", "/api/v1/kv/n/k?expect=1&expect=2", "", 400, "invalid_request", "expect: is given twice"},
		"kv path: parameter":    {"DELETE", "/api/v1/kv/n/k?force=1", "", 400, "unknown_parameter", "force"},
		"kv path: no key":       {"GET", "/api/v1/kv/n/", "", 404, "no_such_route", ""},
		"kv path: method":       {"PATCH", "/api/v1/kv/n/k/l", `{}`, 405, "method_not_allowed", "DELETE, GET, HEAD, POST, PUT"},

		"tx: not an operation":    {"POST", "/api/v1/transaction", `{"operations":[1]}`, 400, "invalid_request", "operations[0]: must be an object"},
		"tx: no type":             {"POST", "/api/v1/transaction", `{"operations":[{"queue":"q","payload":1}]}`, 400, "invalid_request", "operations[0]: type is missing"},
		"tx: type":                {"POST", "/api/v1/transaction", `{"operations":[{"type":"pop"}]}`, 400, "invalid_request", "operations[0].type: must be push or ack"},
		"tx: type twice":          {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","type":"ack"}]}`, 400, "invalid_request", "operations[0].type: is given twice"},
		"tx: member":              {"POST", "/api/v1/transaction", `{"operation":[]}`, 400, "unknown_field", "operation"},
		"tx: twice":               {"POST", "/api/v1/transaction", `{"kv":[],"kv":[]}`, 400, "invalid_request", "kv: is given twice"},
		"tx: item":                {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"q","payload":1},{"queue":"q","payload":1,"transactionID":"x"}]}]}`, 400, "unknown_field", "operations[0].items[1].transactionID"},
		"tx: empty id":            {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":1,"transactionId":""}]}`, 400, "invalid_transaction_id", "operations[0].transactionId"},
		"tx: no value":            {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[{"queue":"q"}]}]}`, 400, "invalid_request", "operations[0].items[0]: one of payload"},
		"tx: items and an item":   {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[],"queue":"q"}]}`, 400, "invalid_request", "operations[0]: a push has items, or"},
		"tx: items twice":         {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","items":[],"items":[]}]}`, 400, "invalid_request", "operations[0].items: is given twice"},
		"tx: half a surrogate":    {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":1,"transactionId":"\ud800"}]}`, 400, "invalid_request", "operations[0].transactionId: holds half"},
		"tx: ack no status":       {"POST", "/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"a","partitionId":"1"}]}`, 400, "invalid_request", "operations[0]: status is missing"},
		"tx: ack member":          {"POST", "/api/v1/transaction", `{"operations":[{"type":"ack","transactionId":"a","partitionId":"1","status":"completed","x":1}]}`, 400, "unknown_field", "operations[0].x"},
		"tx: kv":                  {"POST", "/api/v1/transaction", `{"kv":[{"op":"once","ns":"n","key":"k","required":true,"ttlSeconds":1}]}`, 400, "invalid_request", "kv[0].required: is not for once"},
		"tx: timer":               {"POST", "/api/v1/transaction", `{"timers":[{"op":"schedule","queue":"q","timerKey":"k","data":1}]}`, 400, "invalid_request", "timers[0]: delayMs is missing"},
		"tx: required lease":      {"POST", "/api/v1/transaction", `{"operations":[],"requiredLeases":["01900000-0000-7000-8000-000000000003"]}`, 400, "invalid_request", "requiredLeases: no ack"},
		"tx: lease type":          {"POST", "/api/v1/transaction", `{"requiredLeases":[1]}`, 400, "invalid_request", "requiredLeases[0]: must be a string"},
		"tx: trailing":            {"POST", "/api/v1/transaction", `{}{}`, 400, "bad_json", "at byte"},
		"tx: array":               {"POST", "/api/v1/transaction", `[]`, 400, "invalid_request", "must be an object"},
		"tx: deep":                {"POST", "/api/v1/transaction", `{"operations":[{"type":"push","queue":"q","payload":` + strings.Repeat("[", 1001) + strings.Repeat("]", 1001) + `}]}`, 400, "bad_json", "nested deeper"},
		"tx: parameter":           {"POST", "/api/v1/transaction?x=1", `{}`, 400, "unknown_parameter", "x"},
		"timers: no op":           {"POST", "/api/v1/timers", `[{"queue":"q","timerKey":"k"}]`, 400, "invalid_request", "[0]: op is missing"},
		"timers: op":              {"POST", "/api/v1/timers", `[{"op":"fire"}]`, 400, "invalid_request", "[0].op: must be schedule"},
		"timers: deliverAt":       {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","deliverAt":"2026-01-01T00:00:00Z"}]`, 400, "unknown_field", "[0].deliverAt: is not known here; when a timer is due is said by delayMs"},
		"timers: no payload":      {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1}]`, 400, "invalid_request", "one of payload"},
		"timers: both payloads":   {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"data":1,"payload":""}]`, 400, "invalid_request", "one of payload"},
		"timers: not base64":      {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"payload":"*"}]`, 400, "invalid_request", "[0].payload: is not base64"},
		"timers: horizon":         {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":7776000001,"data":1}]`, 400, "invalid_request", "[0].delayMs: must be a whole number from -7776000000 to 7776000000"},
		"timers: fraction":        {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1.5,"data":1}]`, 400, "invalid_request", "[0].delayMs"},
		"timers: zstd":            {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"data":1,"payloadZstd":true}]`, 400, "not_served", "[0].payloadZstd"},
		"timers: cancel payload":  {"POST", "/api/v1/timers", `[{"op":"cancel","queue":"q","timerKey":"k","data":1}]`, 400, "invalid_request", "[0].data: is not for cancel"},
		"timers: empty txn":       {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"data":1,"txn":""}]`, 400, "invalid_transaction_id", "[0].txn"},
		"timers: empty partition": {"POST", "/api/v1/timers", `[{"op":"schedule","queue":"q","timerKey":"k","delayMs":1,"data":1,"partition":""}]`, 400, "invalid_name", "[0].partition"},
		"timers: no key":          {"POST", "/api/v1/timers", `[{"op":"cancel","queue":"q"}]`, 400, "invalid_request", "timerKey is missing"},
		"timers: too many":        {"POST", "/api/v1/timers", `[` + strings.Repeat(`{"op":"cancel","queue":"q","timerKey":"k"},`, 256) + `{}]`, 413, "too_many_items", "256"},
		"timers: limit":           {"GET", "/api/v1/timers/q?limit=0", "", 400, "invalid_request", "limit"},
		"timers: after twice":     {"GET", "/api/v1/timers/q?after=a&after=b", "", 400, "invalid_request", "after: is given twice"},
		"timers: list parameter":  {"GET", "/api/v1/timers/q?offset=1", "", 400, "unknown_parameter", "offset"},
		"timers: cancel twice":    {"DELETE", "/api/v1/timers/q/k?txn=a&txn=b", "", 400, "invalid_request", "txn: is given twice"},
		"timers: no path key":     {"DELETE", "/api/v1/timers/q/", "", 404, "no_such_route", ""},

		"configure: no queue":   {"POST", "/api/v1/configure", `{"options":{}}`, 400, "invalid_request", "queue is missing"},
		"configure: name":       {"POST", "/api/v1/configure", `{"queue":""}`, 400, "invalid_name", ""},
		"configure: fraction":   {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":1.5}}`, 400, "invalid_request", "options.dedupWindowSeconds"},
		"configure: exponent":   {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":1e3}}`, 400, "invalid_request", "options.dedupWindowSeconds"},
		"configure: text":       {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":"60"}}`, 400, "invalid_request", "must be a whole number"},
		"configure: true":       {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":true}}`, 400, "invalid_request", "must be a whole number"},
		"configure: large":      {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":2147483648}}`, 400, "invalid_request", "from 0 to 2147483647"},
		"configure: huge":       {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":99999999999999999999}}`, 400, "invalid_request", "from 0 to 2147483647"},
		"configure: twice":      {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindowSeconds":1,"dedupWindowSeconds":2}}`, 400, "invalid_request", "given twice"},
		"configure: mode":       {"POST", "/api/v1/configure", `{"queue":"q","mode":"patch"}`, 400, "invalid_request", "mode: must be replace or merge"},
		"configure: namespace":  {"POST", "/api/v1/configure", `{"queue":"q","namespace":5}`, 400, "invalid_request", "namespace: must be a string"},
		"configure: null typo":  {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupWindow":null}}`, 400, "unknown_option", "options.dedupWindow"},
		"configure: lease time": {"POST", "/api/v1/configure", `{"queue":"q","options":{"leaseTime":0}}`, 400, "invalid_request", "options.leaseTime"},
		"configure: priority":   {"POST", "/api/v1/configure", `{"queue":"q","options":{"priority":1}}`, 400, "not_served", "options.priority: only 0"},
		"configure: groups":     {"POST", "/api/v1/configure", `{"queue":"q","options":{"retentionGroups":"g"}}`, 400, "invalid_request", "options.retentionGroups"},
		"configure: source":     {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupSource":1}}`, 400, "invalid_request", "options.dedupSource"},
		"configure: max ids":    {"POST", "/api/v1/configure", `{"queue":"q","options":{"dedupMaxIds":-1}}`, 400, "invalid_request", "options.dedupMaxIds"},
		"configure: kept bytes": {"POST", "/api/v1/configure", `{"queue":"q","options":{"retentionBytes":-2}}`, 400, "invalid_request", "options.retentionBytes"},
		"configure: completed":  {"POST", "/api/v1/configure", `{"queue":"q","options":{"completedRetentionSeconds":0.5}}`, 400, "invalid_request", "options.completedRetentionSeconds"},
		"configure: size":       {"POST", "/api/v1/configure", `{"queue":"q","options":{"maxMessageBytes":0}}`, 400, "invalid_request", "from 1024 to 67108864"},

		"fetch: no entries": {"POST", "/api/v1/fetch", `{}`, 400, "invalid_request", "entries is missing"},
		"fetch: no queue":   {"POST", "/api/v1/fetch", `{"entries":[{"offset":0}]}`, 400, "invalid_request", "entries[0]: queue is missing"},
		"fetch: no offset":  {"POST", "/api/v1/fetch", `{"entries":[{"queue":"q"}]}`, 400, "invalid_request", "offset is missing"},
		"fetch: offset":     {"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":-1}]}`, 400, "invalid_request", "entries[0].offset"},
		"fetch: wait":       {"POST", "/api/v1/fetch", `{"entries":[],"maxWaitMs":600001}`, 400, "invalid_request", "maxWaitMs"},
		"fetch: member":     {"POST", "/api/v1/fetch", `{"entries":[{"queue":"q","offset":0,"max":1}]}`, 400, "unknown_field", "entries[0].max"},
		"fetch: entries":    {"POST", "/api/v1/fetch", `{"entries":[` + strings.Repeat(`{"queue":"q","offset":0},`, 1024) + `{"queue":"q","offset":0}]}`, 400, "too_many_items", "1024"},

		"queues: parameter": {"GET", "/api/v1/resources/queues?page=1", "", 400, "unknown_parameter", "page"},
		"queues: limit":     {"GET", "/api/v1/resources/queues?limit=-1", "", 400, "invalid_request", "limit"},
		"queues: unknown":   {"GET", "/api/v1/resources/queues/q", "", 404, "unknown_queue", ""},
		"parts: unknown":    {"GET", "/api/v1/resources/queues/q/partitions", "", 404, "unknown_queue", ""},
		"delete: unknown":   {"DELETE", "/api/v1/resources/queues/q", "", 404, "unknown_queue", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := newTestServer(Config{})
			w := do(s, tc.method, tc.target, tc.body)
			if w.Code != tc.status {
				t.Fatalf("%d %s, want %d", w.Code, w.Body, tc.status)
			}
			if len(e.queues) != 0 || len(e.keys.rows) != 0 || len(e.timers) != 0 {
				t.Error("something was changed")
			}
			if tc.method == http.MethodHead {
				if w.Body.Len() != 0 {
					t.Errorf("HEAD has a body: %s", w.Body)
				}
				return
			}
			var got struct{ Error, Code, RequestID string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			if got.Code != tc.code || !strings.Contains(got.Error, tc.has) || got.RequestID != "r" {
				t.Errorf("%s, want %s with %q", w.Body, tc.code, tc.has)
			}
		})
	}
}

func TestPagesOfOtherOriginsCannotChangeAnything(t *testing.T) {
	t.Parallel()
	s, e := newTestServer(Config{})
	body := item(`"payload":1`)
	f := func(method, target, body, site string, want int) {
		t.Helper()
		if w := do(s, method, target, body, "Sec-Fetch-Site", site); w.Code != want {
			t.Errorf("%s %s from %s: %d %s, want %d", method, target, site, w.Code, w.Body, want)
		}
	}
	f("POST", "/api/v1/push", body, "cross-site", 403)
	f("GET", "/api/v1/pop/queue/q?autoAck=true", "", "cross-site", 403)
	if len(e.queues) != 0 || len(e.keys.rows) != 0 || len(e.timers) != 0 {
		t.Error("stored")
	}
	f("POST", "/api/v1/push", body, "same-origin", 201)
	f("GET", "/api/v1/resources/queues", "", "cross-site", 200)
	if w := do(s, "POST", "/api/v1/push", body, "Origin", "http://evil.example"); w.Code != 403 {
		t.Errorf("by Origin: %d", w.Code)
	}
}

func TestRequestIDIsOursUnlessItIsPlain(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{})
	f := func(sent string, kept bool) {
		t.Helper()
		got := do(s, "GET", "/livez", "", "X-Request-Id", sent).Header().Get("X-Request-Id")
		if (got == sent) != kept || got == "" {
			t.Errorf("%.40q came back as %.40q", sent, got)
		}
	}
	f("abc-DEF_0.1", true)
	f(strings.Repeat("a", 128), true)
	f(strings.Repeat("a", 129), false)
	f("a\r\nSet-Cookie: x=1", false)
	f("a b", false)
	f("é", false)
	f("", false)
}

func TestHeadIsServedWhereNothingChanges(t *testing.T) {
	t.Parallel()
	s, _ := newTestServer(Config{})
	for _, target := range []string{"/health", "/livez", "/readyz", "/status", "/api/v1/resources/queues"} {
		w := do(s, "HEAD", target, "")
		if w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") == "0" {
			t.Errorf("%s: %d, %d bytes, %v", target, w.Code, w.Body.Len(), w.Header())
		}
	}
}

// kvOf is a body with one operation on keys.
func kvOf(members string) string { return `{"operations":[{` + members + `}]}` }
