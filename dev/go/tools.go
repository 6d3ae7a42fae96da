//go:build tools

// Package tools names the programs in Go that tests run; dev/go-tool builds them.
package tools

import (
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble"
	_ "github.com/summerwind/h2spec/cmd/h2spec"
)
