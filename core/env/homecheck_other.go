//go:build !unix

package env

import "io/fs"

func ours(fs.FileInfo) bool { return true }

func othersWrite(fs.FileInfo) bool { return false }

func names(fs.FileInfo) uint64 { return 1 }
