package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock"
	"github.com/penstockhq/penstock/internal/cli/show"
)

const completionLong = `Print a script that teaches a shell to complete penstock's commands, options, and,
from the database that --db or PENSTOCK_DB names, the names of limits and queues
and the ids of jobs. In bash it needs the package bash-completion.`

const completionExample = `  # bash, now and in every new shell
  source <(penstock completion bash)
  echo 'source <(penstock completion bash)' >> ~/.bashrc

  # zsh
  penstock completion zsh > "${fpath[1]}/_penstock"

  # fish
  penstock completion fish > ~/.config/fish/completions/penstock.fish`

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:                   "completion SHELL",
		Short:                 "Print a script for completion in bash, zsh, fish or powershell",
		Long:                  completionLong,
		Example:               completionExample,
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("expected one of %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return root.GenPowerShellCompletionWithDesc(out)
		},
	}
}

// completer is what cobra asks for the endings of a word.
type completer = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// completed is how many endings are offered at most.
const completed = 200

// fixed offers words that are known.
func fixed(words ...string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// fromDB offers what ask finds in the database, if there is one and it answers
// soon. Nobody waits at a prompt for a reason why not.
func fromDB(ask func(ctx context.Context, c *penstock.Client, args []string, begun string) []string) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		db := ""
		if f := cmd.Flag("db"); f != nil {
			db = f.Value.String()
		}
		var none strings.Builder
		c, _, err := openThere(ctx, db, &none)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		return printable(ask(ctx, c, args, begun)), cobra.ShellCompDirectiveNoFileComp
	}
}

// printable leaves out the names that a terminal must not get, since shells show
// them as they are, and makes the rest of each line safe.
func printable(endings []string) []string {
	var out []string
	for _, ending := range endings {
		name, about, _ := strings.Cut(ending, "\t")
		if !strings.ContainsFunc(name, show.Unsafe) {
			out = append(out, name+"\t"+show.Text(about))
		}
	}
	return out
}

// completeJobs offers the ids of jobs in these states; none given: in all.
func completeJobs(states ...penstock.State) completer {
	return fromDB(func(ctx context.Context, c *penstock.Client, args []string, _ string) []string {
		jobs, err := c.Jobs(ctx, penstock.Filter{States: states, N: completed})
		if err != nil {
			return nil
		}
		var out []string
		for _, j := range jobs {
			if id := strconv.FormatInt(j.ID, 10); !slices.Contains(args, id) {
				out = append(out, fmt.Sprintf("%s\t%v %s %s", id, j.State, j.Kind, j.Ref))
			}
		}
		return out
	})
}

// completeLimits offers the names of limits.
var completeLimits = fromDB(func(ctx context.Context, c *penstock.Client, _ []string, begun string) []string {
	infos, err := c.Store().ListLimits(ctx, begun, completed) // those that begin so come next
	if err != nil {
		return nil
	}
	var out []string
	for _, l := range infos {
		if strings.HasPrefix(l.Name, begun) {
			out = append(out, l.Name+"\t"+l.Spec.String())
		}
	}
	return out
})

// completeQueues offers the names of queues.
var completeQueues = fromDB(func(ctx context.Context, c *penstock.Client, _ []string, _ string) []string {
	queues, err := c.Store().Queues(ctx)
	if err != nil {
		return nil
	}
	var out []string
	for _, q := range queues {
		out = append(out, q.Name)
	}
	return out
})

// completeFilter completes the options that select jobs.
func completeFilter(cmd *cobra.Command) {
	for name, f := range map[string]completer{"limit": completeLimits, "queue": completeQueues, "reason": fixed(deadReasons...)} {
		_ = cmd.RegisterFlagCompletionFunc(name, f) // an error says that the option is not there
	}
}
