package kafkawire

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queenmq/queen"
)

func TestDescribeGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		d.fake.topic("t", 1)
		c := d.dial()
		c.want("OffsetCommit", committed(ask[*kmsg.OffsetCommitResponse](c, offsetCommit(9, "positions", "t", 0, 1))).ErrorCode, codeNone)
		stable := c.leads("stable")
		joining := c.joins(9, "joining")
		for version := int16(0); version <= 6; version++ {
			r := at(kmsg.NewPtrDescribeGroupsRequest(), version)
			r.Groups = []string{"stable", "joining", "positions", "none", "", "stable"}
			r.IncludeAuthorizedOperations = version == 6
			got := ask[*kmsg.DescribeGroupsResponse](c, r).Groups
			if len(got) != 5 {
				t.Fatalf("v%d: %d groups for 5 names", version, len(got))
			}
			none := codeNone
			if version >= 6 {
				none = codeGroupIDNotFound
			}
			for i, want := range []struct {
				code     int16
				state    string
				protocol string
				members  int
			}{{codeNone, "Stable", "range", 1}, {codeNone, "CompletingRebalance", "", 1}, {codeNone, "Empty", "", 0}, {none, "Dead", "", 0}, {codeInvalidGroupID, "", "", 0}} {
				g := got[i]
				if g.Group != r.Groups[i] || g.ErrorCode != want.code || g.State != want.state || g.Protocol != want.protocol || len(g.Members) != want.members {
					t.Errorf("v%d: %q is %+v, want %+v", version, r.Groups[i], g, want)
				}
			}
			if m := got[0].Members[0]; m.MemberID != stable.MemberID || m.ClientID != "test" || string(m.ProtocolMetadata) != "topics" || string(m.MemberAssignment) != "for "+stable.MemberID {
				t.Errorf("v%d: member of the stable group: %+v", version, m)
			}
			if m := got[1].Members[0]; m.MemberID != joining.MemberID || len(m.ProtocolMetadata) != 0 {
				t.Errorf("v%d: member of the joining group: %+v", version, m)
			}
			if ops := got[0].AuthorizedOperations; version >= 3 && (ops == operationsNotAsked) == r.IncludeAuthorizedOperations {
				t.Errorf("v%d: operations %d", version, ops)
			}
		}
		for _, err := range []error{queen.ErrUnavailable, queen.ErrOutcomeUnknown} {
			d.fake.setFail(err)
			r := at(kmsg.NewPtrDescribeGroupsRequest(), 6)
			r.Groups = []string{"positions"}
			c.want(fmt.Sprint(err), ask[*kmsg.DescribeGroupsResponse](c, r).Groups[0].ErrorCode, codeCoordinatorNotAvailable)
		}
	})
}
