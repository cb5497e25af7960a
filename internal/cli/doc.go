// Package cli is the command penstock. Each command is a file, or a few that
// begin with its name. Commands print results on standard output and everything
// else on standard error.
package cli
