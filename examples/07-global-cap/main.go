// One cap for all processes.
//
// Three processes work the same database, under a limit of 5 calls a second. A
// limit kept in each process would let 15 through. Here the limit is in the
// database, and a process gets a job only together with its permit. Look at the
// fullest second in the API's own log, wherever that second starts, and at how
// the processes shared the work.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/apisim"
)

const (
	processes = 3
	calls     = 18
	limit     = "5/s"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		worker(os.Args[2], os.Args[3])
		return
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "penstock-example-")
	check(err)
	defer os.RemoveAll(dir)
	api, err := apisim.Serve(ctx, apisim.Config{}) // it refuses nothing, and counts
	check(err)
	defer api.Close()

	path := filepath.Join(dir, "jobs.db")
	client := open(path)
	defer client.Close()
	for i := range calls {
		_, err := client.Enqueue(ctx, "call", fmt.Sprintf("/things/%d", i+1))
		check(err)
	}
	slots, lines := runWorkers(path, api.URL)

	all := api.API.Log()
	fmt.Printf("%d calls by %d processes: %s\n", len(all), processes, strings.Join(lines, ", "))
	fmt.Printf("fullest second by the API's log: %d calls\n", apisim.FullestWindow(all, time.Second))
	fmt.Printf("fullest second by the slots given out: %d calls\n", fullest(slots))
}

func open(path string) *penstock.Client {
	client, err := penstock.Open(context.Background(), path, penstock.Config{
		Limits: map[string]string{"api": limit}, // the same in every process
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	check(client.DeclareKind("call", penstock.Kind{Limits: penstock.Draws("api")}))
	return client
}

// worker is one of the processes. It prints the slot of each call it makes.
func worker(path, url string) {
	client := open(path)
	defer client.Close()
	check(penstock.Handle(client, "call", func(ctx context.Context, job *penstock.Job[string]) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+job.Args, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		fmt.Println(job.Slot)
		return answer.Body.Close()
	}, penstock.Kind{}))
	check(client.Work(context.Background(), penstock.WorkOptions{Drain: true}))
}

// runWorkers returns the slots of all calls, and what each process did.
func runWorkers(path, url string) (slots []int64, lines []string) {
	self, err := os.Executable()
	check(err)
	var crew []*exec.Cmd
	var said [processes]bytes.Buffer
	for i := range processes {
		cmd := exec.Command(self, "worker", path, url)
		cmd.Stdout, cmd.Stderr = &said[i], os.Stderr
		check(cmd.Start())
		crew = append(crew, cmd)
	}
	for i, cmd := range crew {
		check(cmd.Wait())
		n := 0
		for in := bufio.NewScanner(&said[i]); in.Scan(); n++ {
			var slot int64
			_, err := fmt.Sscan(in.Text(), &slot)
			check(err)
			slots = append(slots, slot)
		}
		lines = append(lines, fmt.Sprint(n))
	}
	return slots, lines
}

// fullest is the largest number of slots within any second. A slot is the
// instant, in microseconds, at which the permit lets its call start.
func fullest(slots []int64) (most int) {
	for _, begin := range slots {
		n := 0
		for _, at := range slots {
			if at >= begin && at < begin+1e6 {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
