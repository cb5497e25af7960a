package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstockhq/penstock/internal/cli/show"
)

// commands are the subcommands, in the order of the help.
var commands = []func() *cobra.Command{
	newRun,
	newWork,
	newEnqueue,
	newExec,
	newJobs,
	newDead,
	newLimits,
	newQueues,
	newWhy,
	newPrune,
	newDoctor,
	newMigrate,
	newDemo,
	newDemoWorker,
	newAPISim,
	newCompletion,
}

// New returns the command penstock with all its subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   "penstock",
		Short: "Background jobs that call rate-limited APIs",
		Long: `Penstock runs background jobs that call rate-limited APIs. A job and the
permits it needs are claimed together, so a limit holds over all processes that
share a database, and a job that may not run yet costs nothing.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cmd.Help()
		},
	}
	for _, add := range commands {
		root.AddCommand(add())
	}
	return root
}

// Main runs the command line and returns the exit code. Errors are printed on
// stderr.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// net/http tells the standard logger of answers that break its rules, and quotes
	// them, unmasked. What matters of them comes back as an error.
	log.SetOutput(io.Discard)
	root := New()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	begun := false
	root.PersistentPreRun = func(*cobra.Command, []string) { begun = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var coded *exitError
	if !errors.As(err, &coded) {
		if begun {
			coded = failure(err)
		} else { // flags, arguments, or no such command
			coded = usagef("%v", err)
		}
	}
	if coded.Err != nil {
		fmt.Fprintf(stderr, "penstock: %s\n", show.TextLines(coded.Err.Error()))
		if coded.Code == exitUsage && coded.hint {
			fmt.Fprintf(stderr, "Try '%s --help'.\n", strings.TrimSpace(cmd.CommandPath()))
		}
	}
	return coded.Code
}
