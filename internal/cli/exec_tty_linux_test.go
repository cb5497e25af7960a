package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// pty opens a terminal: its keyboard, and the side for programs.
func pty(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return keys, tty
}

// A second INT makes many programs drop what they are at; with standard input from a
// pipe, Ctrl-C was passed on beside the one that the terminal sends.
func TestCtrlCReachesTheCommandOnceThoughItsInputIsAPipe(t *testing.T) {
	dir := t.TempDir()
	keys, tty := pty(t)
	// It looks for signals all the time, so that two are not taken for one.
	script := `trap 'echo int >> ints' INT; trap 'echo usr > usr' USR1; echo y > ready; while :; do :; done`
	c := begin(t, dir, func(c *exec.Cmd) {
		c.Stdin, c.Stderr = strings.NewReader("x\n"), tty
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
	}, "exec", "--limit", "one=1 in flight", "--", "sh", "-c", script)
	awaitFile(t, filepath.Join(dir, "ready"))
	if _, err := keys.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, filepath.Join(dir, "ints"))
	c.kill(syscall.SIGUSR1) // it is passed on behind the INT, if that is
	awaitFile(t, filepath.Join(dir, "usr"))
	if got := awaitFile(t, filepath.Join(dir, "ints")); got != "int" {
		t.Errorf("the command got INT more than once: %q", got)
	}
	c.kill(syscall.SIGTERM)
	c.wait()
	c.exits(143)
}
