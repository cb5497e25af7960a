//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// child is the environment variable that makes a process of this test's
// program do one thing instead of testing.
const child = "PGTEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "":
		os.Exit(m.Run())
	case "server": // prints its DSN and goes on until it is killed
		e, err := newEngine(nil)
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString(e.dsn(plainRole, "penstock") + " " + e.dir + "\n")
		select {}
	case "run": // a command that says what it got and ends when it is told to
		code, err := Run("sh", "-c", `echo "$`+Env+`"; read answer; exit "$answer"`)
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	}
}

// spawn starts a child. alive is at its end when the child and everything it
// started have ended.
func spawn(t *testing.T, what string) (cmd *exec.Cmd, in io.Writer, out *bufio.Reader, alive *os.File) {
	t.Helper()
	alive, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"="+what, Env+"=")
	cmd.ExtraFiles = []*os.File{theirs} // all below inherit it
	cmd.Stderr = os.Stderr
	in, err = cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, in, bufio.NewReader(stdout), alive
}

func line(t *testing.T, out *bufio.Reader) string {
	t.Helper()
	s, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

// gone fails if the server of the DSN answers.
func gone(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err == nil {
		_ = conn.Close(context.Background())
		t.Error("the server lives on")
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the server's port: %v, want it refused", err)
	}
}

func TestServerEndsWithAProcessThatIsKilled(t *testing.T) {
	cmd, _, out, alive := spawn(t, "server")
	dsn, dir, _ := strings.Cut(line(t, out), " ")
	if err := onServer(dsn, func(context.Context, *pgx.Conn) error { return nil }); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, alive)
	gone(t, dsn)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there still: %v", dir, err)
	}
}

func TestRunPassesTheExitCode(t *testing.T) {
	cmd, in, out, alive := spawn(t, "run")
	dsn := line(t, out)
	if err := onServer(dsn, func(context.Context, *pgx.Conn) error { return nil }); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "7\n")
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d, %v, want the command's", code, err)
	}
	gone(t, dsn)
	_, _ = io.Copy(io.Discard, alive) // nothing of it is left
}

func TestRunEndsItsServerWhenInterrupted(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, _, out, alive := spawn(t, "run")
			dsn := line(t, out)
			_ = cmd.Process.Signal(signal)
			err := cmd.Wait()
			if code, want := cmd.ProcessState.ExitCode(), 128+int(signal); code != want {
				t.Errorf("exit code %d, %v, want %d", code, err, want)
			}
			gone(t, dsn)
			_, _ = io.Copy(io.Discard, alive)
		})
	}
}

// A server that does not start says why, and leaves nothing.
func TestAServerThatDoesNotStart(t *testing.T) {
	root := t.TempDir()
	for dir := root; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the server's user must come through
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", root)
	_, err := newEngine(map[string]string{"max_connections": "many"})
	if err == nil || !strings.Contains(err.Error(), `invalid value for parameter "max_connections"`) {
		t.Errorf("newEngine: %v", err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
