package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user the server runs as; nil means ourselves. PostgreSQL
// refuses to run as root, so root must pick one.
type account struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32
}

// accountNames are tried in this order when root makes a new data folder.
var accountNames = []string{"queen", "postgres", "_postgres", "nobody"}

// chooseAccount picks the server's user: the owner of an existing cluster, else
// the first of accountNames.
func chooseAccount(pgDir string) (*account, error) {
	me := os.Geteuid()
	owner, err := ownerOf(pgDir)
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at the database folder: %w", err)
	}
	if me != 0 {
		if exists && owner != uint32(me) {
			return nil, fmt.Errorf("database folder %s belongs to user %s: run as that user or as root, or choose another --data-dir",
				pgDir, userName(owner))
		}
		return nil, nil
	}
	if exists && owner != 0 {
		if u, err := user.LookupId(strconv.Itoa(int(owner))); err == nil {
			return newAccount(u)
		}
		// A cluster from another machine or container: the number is enough.
		return &account{name: userName(owner), uid: owner, gid: owner}, nil
	}
	for _, name := range accountNames {
		if u, err := user.Lookup(name); err == nil && u.Uid != "0" {
			return newAccount(u)
		}
	}
	return nil, errors.New("PostgreSQL does not run as root and none of the users queen, postgres, nobody exists: " +
		"create one (useradd --system queen), or run as another user")
}

func newAccount(u *user.User) (*account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: id %q: %w", u.Username, u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: group %q: %w", u.Username, u.Gid, err)
	}
	a := &account{name: u.Username, uid: uint32(uid), gid: uint32(gid)}
	if ids, err := u.GroupIds(); err == nil {
		for _, id := range ids {
			if g, err := strconv.ParseUint(id, 10, 32); err == nil {
				a.groups = append(a.groups, uint32(g))
			}
		}
	}
	return a, nil
}

// sysProcAttr makes a child run as the account, in its own process group.
func (a *account) sysProcAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	}
	return attr
}

// own gives a path to the account; a no-op when the account is ourselves.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// id is the user id files of the server have.
func (a *account) id() uint32 {
	if a == nil {
		return uint32(os.Geteuid())
	}
	return a.uid
}

func (a *account) String() string {
	if a == nil {
		return userName(uint32(os.Geteuid()))
	}
	return a.name
}

func ownerOf(path string) (uint32, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return fi.Sys().(*syscall.Stat_t).Uid, nil
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "#" + id
}
