package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstockhq/penstock/internal/cli/show"
	"github.com/penstockhq/penstock/store/postgres"
)

// What the checks of a server hold to be too much.
const (
	openNoted   = time.Minute // of a transaction
	openProblem = 10 * time.Minute
	offNoted    = time.Second // of this machine's clock
	deadNoted   = 100_000     // rows of a table, if they are more than the live ones
)

// server checks the server of the store, if it is on one.
func (d *doctor) server() error {
	s, ok := d.st.(*postgres.Store)
	if !ok {
		return nil
	}
	c, err := s.Examine(d.ctx)
	if err != nil {
		return err
	}
	d.find("schema", fine, "", "version %d, the newest this program knows, in schema %s of PostgreSQL %s; tables and indexes have %s",
		c.Version, c.Schema, c.Server, show.Bytes(c.Bytes))
	d.details(schemaDetails{Version: int64(c.Version), Newest: int64(c.Newest), Schema: c.Schema, Server: c.Server, Bytes: c.Bytes})
	d.offset(&c)
	d.transactions(&c)
	d.deadRows(&c)
	d.listeners(&c)
	return nil
}

// offset compares the clocks. Only the server's counts, so a wrong one here does no
// harm but to who compares times.
func (d *doctor) offset(c *postgres.Condition) {
	defer func() { d.details(offsetDetails{show.Seconds(c.Offset), show.Seconds(c.OffsetE)}) }()
	off, direction := c.Offset, "ahead of"
	if off < 0 {
		off, direction = -off, "behind"
	}
	if off <= offNoted+c.OffsetE {
		d.find("offset", fine, "", "the server's clock and this machine's agree, but for %s, give or take %s", show.Duration(off), show.Duration(c.OffsetE))
		return
	}
	d.find("offset", noted, "jobs and limits go by the server's clock alone; set this one right for whoever compares times",
		"the server's clock is %s %s this machine's", show.Duration(off), direction)
}

// transactions tells of the oldest one.
func (d *doctor) transactions(c *postgres.Condition) {
	defer func() { d.details(newOldestDetails(c)) }()
	hidden := ""
	if c.Hidden > 0 {
		hidden = fmt.Sprintf("; how old %s of other roles, this role may not see: GRANT pg_read_all_stats TO it", amount(c.Hidden, "open transaction is", "open transactions are"))
	}
	o := c.Oldest
	if o == (postgres.Transaction{}) {
		d.find("oldest", fine, "", "no transaction is open that keeps dead rows%s", hidden)
		return
	}
	l, do := fine, ""
	if o.Age >= openNoted {
		l, do = noted, "while it is open, nothing that died since is cleaned, and claims get slower"
	}
	if o.Age >= openProblem {
		l = problem
		do += fmt.Sprintf("; if nobody needs it: SELECT pg_terminate_backend(%d)", o.PID)
		if o.Prepared {
			do = strings.Split(do, ";")[0] + "; commit it, or roll it back: ROLLBACK PREPARED"
		}
	}
	d.find("oldest", l, do, "the oldest open transaction is %s old: %s%s", show.Duration(o.Age), o, hidden)
}

// deadRows tells of rows that died and were not cleaned, in the tables that claims walk.
func (d *doctor) deadRows(c *postgres.Condition) {
	defer func() { d.details(newTablesDetails(c)) }()
	slices.SortStableFunc(c.Tables, func(a, b postgres.Table) int { return cmp.Compare(b.Dead, a.Dead) })
	var texts []string
	l, do := fine, ""
	for _, t := range c.Tables {
		cleaned := "never cleaned"
		if !t.Cleaned.IsZero() {
			cleaned = "cleaned " + show.Duration(max(time.UnixMicro(d.now).Sub(t.Cleaned), 0)) + " ago"
		}
		if t.Dead > deadNoted && t.Dead > t.Live {
			l, do = noted, "look for an old transaction above, and whether autovacuum runs and keeps up"
		}
		if t.Dead > 0 {
			texts = append(texts, fmt.Sprintf("%s %s, %s live, %s", t.Name, show.Number(t.Dead), show.Number(t.Live), cleaned))
		}
	}
	if len(texts) == 0 {
		d.find("dead rows", fine, "", "none in the tables that claims walk")
		return
	}
	d.find("dead rows", l, do, "dead rows in the tables that claims walk: %s", strings.Join(texts, "; "))
}

// listeners tells whether processes that work are notified of new jobs.
func (d *doctor) listeners(c *postgres.Condition) {
	live := 0
	for _, w := range d.workers {
		if !w.Dead {
			live++
		}
	}
	defer func() { d.details(listenerDetails{c.Listeners, live, c.Pooler}) }()
	switch {
	case c.Listeners > 0:
		d.find("listener", fine, "", "%s notified of new jobs", amount(c.Listeners, "process is", "processes are"))
	case live > 0:
		d.find("listener", noted, "behind a pooler of transactions that is so; else look whether a firewall cuts connections that are idle",
			"no process is notified of new jobs: they look for themselves, every 100 ms")
	default:
		d.find("listener", fine, "", "nobody works, so nobody listens")
	}
}
