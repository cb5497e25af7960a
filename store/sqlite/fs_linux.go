package sqlite

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// networkTypes are statfs(2) magic numbers of file systems whose locks do not
// reach other machines, or whose memory maps are not shared.
var networkTypes = map[int64]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.V9FS_MAGIC:       "9p",
	unix.CODA_SUPER_MAGIC: "Coda",
	unix.NCP_SUPER_MAGIC:  "NCP",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.AFS_FS_MAGIC:     "AFS",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	0x01161970:            "GFS2",
	0x7461636f:            "OCFS2",
	0x0bd00bd0:            "Lustre",
}

// fuseMagic is that of all file systems in user space, near and far.
const fuseMagic = 0x65735546

// networkFUSE are those that are known to be far, as /proc/self/mountinfo names them.
var networkFUSE = []string{"fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.cephfs", "fuse.davfs", "fuse.smbnetfs", "fuse.juicefs"}

func checkFileSystem(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	magic := int64(s.Type) & 0xffffffff
	if magic != fuseMagic {
		return judgeMagic(magic)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil // not to be known
	}
	return judgeFUSE(string(mounts), fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
}

func judgeMagic(magic int64) error {
	if name, ok := networkTypes[magic]; ok {
		return refuseNetwork(name)
	}
	return nil
}

// judgeFUSE looks a device up in the text of mountinfo (proc_pid_mountinfo(5)):
// its third field is the device, and the type follows a lone hyphen.
func judgeFUSE(mounts, device string) error {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) > 2 && left[2] == device && len(right) > 0 && slices.Contains(networkFUSE, right[0]) {
			return refuseNetwork(right[0])
		}
	}
	return nil
}

func refuseNetwork(name string) error {
	return fmt.Errorf("%w (%s): SQLite's locks do not hold there; put the file on a local disk", ErrNetworkFS, name)
}

// mountedAlone says whether a file is the root of a mount, as containers have it
// that are given the file and not its folder. Kernels before 5.8 do not tell.
func mountedAlone(path string) bool {
	var st unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, path, 0, 0, &st) == nil && st.Attributes&st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
}
