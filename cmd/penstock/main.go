// Command penstock runs background jobs that call rate-limited APIs.
package main

import (
	"context"
	"os"

	"github.com/penstockhq/penstock/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
