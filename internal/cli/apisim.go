package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock/apisim"
)

func newAPISim() *cobra.Command {
	var (
		config   = apisim.Config{}
		address  string
		algo     string
		rate     string
		retry    string
		announce string
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "apisim",
		Short: "Run a pretend API with a strict limit",
		Long: `Runs a pretend API in the foreground, to try clients on. It counts calls at their
arrival, in the way that is asked for, and refuses what is over the limit with
429. It prints its address, and, when INT or TERM ends it, what it saw.

  POST /messages       sends a pretend SMS: {"to": "+447700900001", "text": "hello"}
  any other path       answers with an echo; /status/503 answers with that status
  GET  /_apisim/log    every call as a JSON line; ?from=SEQ for the later ones
  GET  /_apisim/stats  the log in figures
  GET  /_apisim/config  POST the same to change it, such as {"limit": 10}
  POST /_apisim/reset  forgets all calls

It listens on this machine only, unless --addr names another address. Anybody
who can reach it can read its log and change it.`,
		Example: `  penstock apisim --limit 50/s --latency 20ms --jitter 10ms
  penstock apisim --algo bucket --limit 100/m --retry-after date
  penstock apisim --algo inflight --limit 8 --5xx 0.01 --timeouts 0.01
  penstock apisim --addr 127.0.0.1:8080 --limit 5/s --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config.Algorithm, config.RetryAfter, config.Announce = apisim.Algorithm(algo), apisim.RetryAfter(retry), apisim.Announce(announce)
			if err := setRate(&config, rate); err != nil {
				return err
			}
			if err := config.Validate(); err != nil {
				return usagef("%s", strings.ReplaceAll(err.Error(), "apisim: ", ""))
			}
			return runAPISim(cmd, address, config, asJSON)
		},
	}
	var names []string
	for _, a := range apisim.Algorithms {
		names = append(names, string(a))
	}
	var forms []string
	for _, r := range apisim.RetryAfters {
		forms = append(forms, string(r))
	}
	var announces []string
	for _, a := range apisim.Announces {
		announces = append(announces, string(a))
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "addr", "127.0.0.1:0", "where to listen; port 0 is a free one")
	flags.StringVar(&algo, "algo", string(apisim.Sliding), "how calls are counted: "+strings.Join(names, ", "))
	flags.StringVar(&rate, "limit", "5/s", "calls in a window, as 5/s, 100/m, 40/10s; a number of calls for inflight")
	flags.IntVar(&config.Burst, "burst", 0, "gcra: calls that may come at once (default a tenth of the limit)")
	flags.IntVar(&config.MaxInFlight, "max-in-flight", 0, "calls answered at a time, beside the limit (0: any number)")
	flags.BoolVar(&config.CountRefused, "count-refused", false, "sliding: refused calls use up the window, too")
	flags.StringVar(&retry, "retry-after", string(apisim.RetryAfterSeconds), "the header on refusals: "+strings.Join(forms, ", "))
	flags.StringVar(&announce, "announce", string(apisim.AnnounceNone), "how every answer says how many calls are left: "+strings.Join(announces, ", "))
	flags.DurationVar(&config.Latency, "latency", 20*time.Millisecond, "how long every answer takes")
	flags.DurationVar(&config.JitterMean, "jitter", 0, "mean delay of a call on its way, before it is counted")
	flags.Float64Var(&config.Error5xx, "5xx", 0, "share of calls answered with 500, 502 or 503")
	flags.Float64Var(&config.TimeoutRate, "timeouts", 0, "share of calls that hang for --hold")
	flags.DurationVar(&config.TimeoutHold, "hold", 30*time.Second, "how long a call hangs")
	flags.BoolVar(&config.Dedupe, "dedupe", true, "answer a repeated Idempotency-Key with the first answer")
	flags.DurationVar(&config.ClockOffset, "clock-offset", 0, "how far the API's clock is ahead")
	flags.Uint64Var(&config.Seed, "seed", 1, "of jitter and failures")
	flags.BoolVar(&asJSON, "json", false, "print JSON: one line with the address, one with the figures at the end")
	return cmd
}

// setRate reads calls per window. It is written like a limit of Penstock, and
// read here: the pretend API shares no code with what it is to judge.
func setRate(c *apisim.Config, text string) error {
	calls, per, isRate := strings.Cut(text, "/")
	n, err := strconv.Atoi(strings.TrimSpace(calls))
	bad := usagef("--limit must be calls per time, as 5/s, 100/m, 3600/h or 40/10s, or a number of calls (inflight), got %q", text)
	if err != nil || n < 1 {
		return bad
	}
	c.Limit = n
	inFlight := c.Algorithm == apisim.InFlight
	if !isRate {
		if !inFlight && c.Algorithm != apisim.None {
			return bad
		}
		return nil
	}
	if inFlight {
		return usagef("--algo inflight counts calls at a time: --limit must be a number of calls, got %q", text)
	}
	per = strings.TrimSpace(per)
	if per == "" {
		return bad
	}
	if per[0] < '0' || per[0] > '9' {
		per = "1" + per
	}
	if c.Window, err = time.ParseDuration(per); err != nil || c.Window <= 0 {
		return bad
	}
	return nil
}

// runAPISim serves until a signal comes, and prints the figures.
func runAPISim(cmd *cobra.Command, address string, config apisim.Config, asJSON bool) error {
	signals := watchSignals(cmd.Context())
	defer signals.close()
	// The server outlives the signal by a moment, so that its end is ours to see.
	server, err := apisim.Listen(cmd.Context(), address, config)
	if err != nil {
		return err
	}
	defer server.Close()
	out := cmd.OutOrStdout()
	encoder := json.NewEncoder(out)
	if asJSON {
		err = encoder.Encode(map[string]string{"url": server.URL})
	} else {
		_, err = fmt.Fprintf(out, "the pretend API listens on %s (%s)%s\n", server.URL, config.Algorithm, reachable(server.URL))
	}
	if err != nil {
		return fmt.Errorf("the address cannot be printed: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return err
		}
	case <-signals.stop.Done():
	}
	server.Close()
	stats := server.API.Stats()
	if asJSON {
		err = encoder.Encode(stats)
	} else {
		_, err = fmt.Fprintf(out, "\n%d calls: %d accepted, %d refused\nfullest window %d, most in flight %d\n%d rejected, %d failed, %d messages delivered, %d calls repeated\n",
			stats.Calls, stats.Accepted, stats.Refused, stats.FullestWindow, stats.MostInFlight, stats.Rejected, stats.Failed, stats.Delivered, stats.Repeated)
	}
	if err != nil {
		return fmt.Errorf("the figures cannot be printed: %w", err)
	}
	return nil // a signal is how it is meant to end
}

// reachable warns where others can reach it.
func reachable(url string) string {
	host, _, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
		return ""
	}
	return "; other machines can reach it"
}
