package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A host is the machine and what was measured on it.
type host struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	OS       string            `json:"os"`
	Memory   string            `json:"memory"`
	Go       string            `json:"go"`
	Fsync    float64           `json:"fsync_p50_ms"`
	Load     string            `json:"load_before"` // of the last minute
	Versions map[string]string `json:"versions"`
}

// measured are the modules whose versions matter, by kind of database.
var measured = map[string][]string{
	onSQLite:   {"github.com/riverqueue/river", "maragu.dev/goqite", "modernc.org/sqlite"},
	onPostgres: {"github.com/riverqueue/river", "github.com/vgarvardt/gue/v5", "github.com/jackc/pgx/v5"},
}

func machine() *host {
	h := &host{
		CPU: field("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(), Memory: field("/proc/meminfo", "MemTotal"),
		OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Versions: map[string]string{},
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.OS += " " + strings.TrimSpace(string(kernel))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		h.Load, _, _ = strings.Cut(string(load), " ")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			for _, names := range measured {
				if slices.Contains(names, m.Path) {
					h.Versions[m.Path] = m.Version
				}
			}
		}
	}
	return h
}

// field reads "name : value" from a file of /proc; "" where there is none.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// probeDisk measures how long it takes to have 4 KiB on the disk.
func (h *host) probeDisk(dir string) (err error) {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		return err
	}
	defer f.Close()
	var all []time.Duration
	for range 200 {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return err
		}
		before := time.Now()
		if err := f.Sync(); err != nil {
			return err
		}
		all = append(all, time.Since(before))
	}
	h.Fsync = percentile(all, 50)
	return nil
}

// describe tells of the machine, and of what was measured on a kind of database.
func (h *host) describe(on string) string {
	s := fmt.Sprintf("%d cores (%s), memory %s, %s, %s, fsync p50 %.2f ms, load before %s", h.Cores, h.CPU, h.Memory, h.OS, h.Go, h.Fsync, h.Load)
	for _, name := range measured[on] {
		if v := h.Versions[name]; v != "" {
			s += fmt.Sprintf(", %s %s", name, v)
		}
	}
	return s
}
