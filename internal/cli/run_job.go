package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

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
	if err := errors.Join(r.Validate(), httpcall.CheckKey(c.IdempotencyKey)); err != nil {
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
	method, body := r.Method, bytes.Buffer{}
	if len(r.Body) > 0 {
		if err := json.Compact(&body, r.Body); err != nil {
			return "", err
		}
	}
	switch {
	case method != "":
	case body.Len() > 0:
		method = "POST"
	default:
		method = "GET"
	}
	d := digest{make([]byte, 0, 512)}
	d.text("1") // the version of what is hashed
	d.text(method, r.URL, body.String())
	d.number(int64(len(r.Headers)))
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		d.text(name, r.Headers[name])
	}
	d.number(int64(len(draws)))
	for _, draw := range draws {
		d.text(draw.Limit)
		d.number(draw.Cost)
	}
	d.text(cmp.Or(c.Queue, penstock.DefaultQueue), c.Group, c.IdempotencyKey)
	d.number(int64(cmp.Or(c.Priority, penstock.DefaultPriority)), int64(c.Delay), penstock.Micros(c.RunAt),
		penstock.Micros(c.ExpiresAt), int64(c.Timeout), int64(c.Attempts))
	if c.AtMostOnce {
		d.number(1)
	}
	sum := sha256.Sum256(d.parts)
	return base64.RawURLEncoding.EncodeToString(sum[:15]), nil
}

// digest gathers parts so that no two lists of parts look alike: each text has
// its length before it.
type digest struct{ parts []byte }

func (d *digest) text(parts ...string) {
	for _, p := range parts {
		d.number(int64(len(p)))
		d.parts = append(d.parts, p...)
	}
}

func (d *digest) number(parts ...int64) {
	for _, n := range parts {
		d.parts = binary.BigEndian.AppendUint64(d.parts, uint64(n))
	}
}
