package sqlite

import (
	"fmt"

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
	0x65735546:            "FUSE", // sshfs and its like
	0x01161970:            "GFS2",
	0x7461636f:            "OCFS2",
	0x0bd00bd0:            "Lustre",
}

func checkFileSystem(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("file system of %s: %w", dir, err)
	}
	return judgeFileSystem(int64(s.Type))
}

func judgeFileSystem(magic int64) error {
	if name, ok := networkTypes[magic&0xffffffff]; ok {
		return fmt.Errorf("%w (%s): SQLite's locks do not hold there; put the file on a local disk", ErrNetworkFS, name)
	}
	return nil
}
