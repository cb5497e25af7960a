// Command cmd runs a command with a throwaway PostgreSQL for the tests in it:
//
//	go run ./internal/pgtest/cmd go test ./...
//
// It exits with the command's exit code. Where no PostgreSQL is found, the command
// runs without: tests that need one fail then. With -missing it
// prints the names of what is not found here of postgresql and pgbouncer, one a
// line, and does nothing else.
package main

import (
	"fmt"
	"os"

	"github.com/penstockhq/penstock/internal/pgtest"
)

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 0:
		fmt.Fprintln(os.Stderr, "pgtest: expected a command to run, e.g.: go test ./store/postgres")
		os.Exit(2)
	case args[0] == "-missing":
		for _, name := range pgtest.Missing() {
			fmt.Println(name)
		}
		return
	}
	code, err := pgtest.Run(args[0], args[1:]...)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pgtest: %v\n", err)
	}
	os.Exit(code)
}
