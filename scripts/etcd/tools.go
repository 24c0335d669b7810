//go:build tools

// Package tools names the program that scripts/setup-kubernetes.sh builds, for `go mod tidy`. It is never compiled.
package tools

import _ "go.etcd.io/etcd/server/v3"
