//go:build tools

// Package tools names the program that scripts/setup-seaweedfs.sh builds, for `go mod tidy`. It is never compiled.
package tools

import _ "github.com/seaweedfs/seaweedfs/weed"
