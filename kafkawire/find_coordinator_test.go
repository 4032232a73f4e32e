package kafkawire

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFindCoordinator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.twoBrokers()
		d.fake.setCoordinator(2)
		c := d.dial()
		find := func(version int16, kind int8, keys ...string) *kmsg.FindCoordinatorResponse {
			r := at(kmsg.NewPtrFindCoordinatorRequest(), version)
			r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = kind, keys[0], keys
			return ask[*kmsg.FindCoordinatorResponse](c, r)
		}
		for version := int16(0); version < 4; version++ {
			if r := find(version, 0, "g"); r.ErrorCode != codeNone || r.NodeID != 2 || r.Host != "two.test" || r.Port != 9093 {
				t.Errorf("v%d: %+v", version, r)
			}
		}
		for version := int16(4); version <= 6; version++ {
			r := find(version, 0, "g", "h")
			if len(r.Coordinators) != 2 || r.Coordinators[1].Key != "h" || r.Coordinators[1].NodeID != 2 || r.Coordinators[1].Host != "two.test" {
				t.Errorf("v%d: %+v", version, r)
			}
		}
		c.want("of a transaction", find(6, 1, "x").Coordinators[0].ErrorCode, codeTransactionalIDAuth)
		c.want("of a transaction, before v4", find(2, 1, "x").ErrorCode, codeTransactionalIDAuth)
		c.want("of a share", find(6, 2, "g:t:0").Coordinators[0].ErrorCode, codeInvalidRequest)
		d.fake.setCoordinator(0)
		none := find(6, 0, "g").Coordinators[0]
		c.want("while nobody is", none.ErrorCode, codeCoordinatorNotAvailable)
		if none.NodeID != -1 || none.Port != -1 {
			t.Errorf("nobody is %+v", none)
		}
	})
}
