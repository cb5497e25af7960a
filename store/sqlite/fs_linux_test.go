package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestNetworkFileSystems(t *testing.T) {
	for _, magic := range []int64{0x6969, 0xff534d42, 0xfe534d42} { // NFS, CIFS, SMB2
		if err := judgeMagic(magic); !errors.Is(err, ErrNetworkFS) {
			t.Errorf("%#x: %v", magic, err)
		}
	}
	for _, magic := range []int64{0xef53, 0x01021994, 0x9123683e, 0x58465342} { // ext4, tmpfs, btrfs, XFS
		if err := judgeMagic(magic); err != nil {
			t.Errorf("%#x: %v", magic, err)
		}
	}
	const mounts = `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
88 35 0:52 / /srv/a/far rw,nosuid shared:20 - fuse.sshfs a@far:/ rw,user_id=1000
89 35 0:53 / /srv/a/near rw,nosuid shared:21 - fuse.gocryptfs /a rw,user_id=1000
`
	if err := judgeFUSE(mounts, "0:52"); !errors.Is(err, ErrNetworkFS) {
		t.Errorf("sshfs: %v", err)
	}
	if err := judgeFUSE(mounts, "0:53"); err != nil {
		t.Errorf("a local FUSE file system: %v", err)
	}
}

// A file that was mounted by itself, as `docker run -v jobs.db:/jobs.db` does, has
// no log beside it that others see.
func TestAFileMountedWithoutItsFolderIsRefused(t *testing.T) {
	if !mountedAlone("/proc") {
		t.Skip("/proc is no mount here, or the kernel does not tell")
	}
	if path := tempFile(t); mountedAlone(filepath.Dir(path)) {
		t.Error("a folder is taken for a mount")
	}
	info, err := os.Stat("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkNames("/proc", aFile{info}); !errors.Is(err, ErrTwoNames) {
		t.Errorf("the root of a mount: %v", err)
	}
}

// aFile has one hard link, as files have and folders have not.
type aFile struct{ os.FileInfo }

func (aFile) Sys() any { return &syscall.Stat_t{Nlink: 1} }
