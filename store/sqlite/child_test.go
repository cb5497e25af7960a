package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstockhq/penstock/store"
	"github.com/penstockhq/penstock/store/engine"
)

// Tests of several processes start the test binary again: the environment says
// what it is to do there. Parent and child talk in lines, so no test waits for
// time to pass.

const (
	roleEnv = "PENSTOCK_TEST_ROLE"
	pathEnv = "PENSTOCK_TEST_PATH"
	nameEnv = "PENSTOCK_TEST_NAME"
)

// hangAfter ends tests that would wait for ever.
const hangAfter = 60 * time.Second

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := roles[role](os.Getenv(pathEnv), os.Getenv(nameEnv)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var roles = map[string]func(path, name string) error{
	"open":   roleOpen,
	"insert": roleInsert,
	"stuck":  roleStuck,
	"worker": roleWorker,
	"watch":  roleWatch,
	"hold":   roleHold,
}

// roleOpen opens, waits for a line, and closes.
func roleOpen(path, _ string) error {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	fmt.Println("opened")
	awaitLine()
	return s.Close()
}

// roleInsert inserts pairs of jobs into the queue of its name, and says so after
// each, until it is killed or its input ends.
func roleInsert(path, name string) error {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	awaitLine()
	stop := make(chan struct{})
	go func() {
		awaitLine()
		close(stop)
	}()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return s.Close()
		default:
		}
		jobs := []store.NewJob{job(name), job(name)}
		for i := range jobs {
			jobs[i].Run, jobs[i].Ref = name, fmt.Sprintf("%d.%d", n, i)
		}
		if _, err := s.Insert(context.Background(), jobs); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// roleStuck stays in the middle of a transaction that has written.
func roleStuck(path, name string) error {
	d, err := openDB(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	return d.Update(context.Background(), func(tx engine.Tx) error {
		if _, err := engine.Insert(tx, []store.NewJob{job(name)}); err != nil {
			return err
		}
		fmt.Println("inside")
		select {}
	})
}

// roleWorker registers the worker of its name and lives on.
func roleWorker(path, name string) error {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	if err := s.Register(context.Background(), store.Worker{ID: name, PID: os.Getpid(), Lease: time.Hour}); err != nil {
		return err
	}
	fmt.Println("registered")
	awaitLine()
	if err := s.Deregister(context.Background(), name); err != nil {
		return err
	}
	fmt.Println("gone")
	awaitLine()
	return nil
}

// roleWatch says when it is told of a commit, having settled first.
func roleWatch(path, _ string) error {
	s, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ch := s.Watch(ctx)
	<-ch // the first look
	fmt.Println("watching")
	<-ch
	fmt.Println("told", time.Now().UnixMicro())
	return s.Close()
}

// roleHold keeps SQLite's write lock without a turn, as a shell would.
func roleHold(path, _ string) error {
	c, err := connect(path)
	if err != nil {
		return err
	}
	if err := c.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	fmt.Println("holding")
	awaitLine()
	return c.exec(`COMMIT`)
}

func awaitLine() {
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  interface{ Close() error }
	say func(string)
	out *bufio.Scanner
}

func start(t *testing.T, role, path, name string) *child {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangAfter)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, pathEnv+"="+path, nameEnv+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out), say: func(s string) {
		if _, err := fmt.Fprintln(in, s); err != nil {
			t.Error(err)
		}
	}}
	t.Cleanup(c.kill)
	return c
}

// line waits for the child's next line.
func (c *child) line() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the child ended: %v", c.cmd.Wait())
	}
	if s := c.out.Text(); !strings.HasPrefix(s, "error:") {
		return s
	}
	c.t.Fatal(c.out.Text())
	return ""
}

func (c *child) expect(want string) {
	c.t.Helper()
	if got := c.line(); got != want {
		c.t.Fatalf("the child says %q, expected %q", got, want)
	}
}

// kill is kill -9, and waits until the process is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// finish lets the child end by itself.
func (c *child) finish() {
	c.t.Helper()
	c.say("end")
	c.in.Close()
	for c.out.Scan() { // what it still says
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the child ended: %v", err)
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

func job(queue string) store.NewJob {
	return store.NewJob{LaneKey: store.LaneKey{Queue: queue, Kind: "noop", Priority: 5}, Payload: []byte("payload")}
}

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "penstock.db") }

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openDBAt(t testing.TB, path string) *db {
	t.Helper()
	d, err := openDB(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func insert(t testing.TB, s store.Store, jobs ...store.NewJob) []store.Inserted {
	t.Helper()
	got, err := s.Insert(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// checkFile asks SQLite whether the file is sound.
func checkFile(t testing.TB, path string) {
	t.Helper()
	c, err := connect(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var says []string
	if err := c.query(func(r row) { says = append(says, r.text(0)) }, `PRAGMA integrity_check`); err != nil {
		t.Fatal(err)
	}
	if len(says) != 1 || says[0] != "ok" {
		t.Errorf("integrity_check: %q", says)
	}
}
