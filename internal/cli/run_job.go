package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/httpcall"
	"github.com/penstockhq/penstock/internal/cli/batch"
)

// newJob makes a job of a line's call. Its draws are those the line names, in
// their order, and then the host's.
func (p *runPlan) newJob(c *batch.Call) (penstock.NewJob, httpcall.Request, error) {
	var none penstock.NewJob
	url, err := p.base.Resolve(c.URL)
	if err != nil {
		return none, httpcall.Request{}, fmt.Errorf("url: %w", err)
	}
	r := httpcall.Request{Method: c.Method, URL: url, Headers: c.Headers, Body: c.Body}
	if err := r.Validate(); err != nil {
		return none, r, oneLine(err)
	}
	payload, err := r.Payload()
	if err != nil {
		return none, r, err
	}
	draws := drawsOf(c, httpcall.HostLimit(url))
	hash, err := contentHash(r, c, draws)
	if err != nil {
		return none, r, err
	}
	return penstock.NewJob{
		Kind: httpcall.Kind, Payload: payload, Limits: draws,
		Queue: c.Queue, Priority: c.Priority, Group: c.Group,
		Delay: c.Delay, RunAt: c.RunAt, ExpiresAt: c.ExpiresAt,
		Timeout: c.Timeout, Attempts: c.Attempts,
		IdempotencyKey: c.IdempotencyKey, AtMostOnce: c.AtMostOnce || p.atMostOnce,
		Run: p.run, Ref: c.ID, Hash: hash, Line: c.Line,
	}, r, nil
}

// drawsOf fills in the costs. A line that names its host's limit says its cost
// there.
func drawsOf(c *batch.Call, host string) []penstock.Draw {
	cost := max(c.Cost, 1)
	draws := make([]penstock.Draw, 0, len(c.Draws)+1)
	named := false
	for _, d := range c.Draws {
		if d.Cost == 0 {
			d.Cost = cost
		}
		named = named || d.Limit == host
		draws = append(draws, penstock.Draw{Limit: d.Limit, Cost: d.Cost})
	}
	if !named {
		draws = append(draws, penstock.Draw{Limit: host, Cost: cost})
	}
	return draws
}

// contentHash is a digest of what a line says is to be called, and how. How the
// line is written does not matter: the order of its fields, spaces, what it says
// that would be so anyway.
func contentHash(r httpcall.Request, c *batch.Call, draws []penstock.Draw) (string, error) {
	switch {
	case r.Method != "":
	case len(r.Body) > 0:
		r.Method = "POST"
	default:
		r.Method = "GET"
	}
	if len(r.Body) > 0 {
		var b bytes.Buffer
		if err := json.Compact(&b, r.Body); err != nil {
			return "", err
		}
		r.Body = b.Bytes()
	}
	payload, err := r.Payload()
	if err != nil {
		return "", err
	}
	how, err := json.Marshal(struct {
		Draws        []penstock.Draw
		Queue, Group string
		Priority     int
		Delay        time.Duration
		RunAt        int64
		ExpiresAt    int64
		Timeout      time.Duration
		Attempts     int
		Key          string
		AtMostOnce   bool
	}{
		draws, cmp.Or(c.Queue, penstock.DefaultQueue), c.Group, cmp.Or(c.Priority, penstock.DefaultPriority), c.Delay, penstock.Micros(c.RunAt), penstock.Micros(c.ExpiresAt),
		c.Timeout, c.Attempts, c.IdempotencyKey, c.AtMostOnce,
	})
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "1 %d ", len(payload)) // the version of what is hashed
	h.Write(payload)
	h.Write(how)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:15]), nil
}
