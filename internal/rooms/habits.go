package rooms

import (
	"bytes"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
)

// CheckSleep reports tests that sleep, in every module of the repository: they
// are slow where they pass and fail where the machine is slower. Virtual time
// (testing/synctest) or waiting for a named signal holds.
func CheckSleep(sources []Source) []Finding {
	var found []Finding
	for _, s := range sources {
		if !s.isTest() {
			continue
		}
		s.eachUse(func(at ast.Node, pkg, name string) {
			if pkg == "time" && name == "Sleep" {
				found = append(found, s.finding(at, "tests must not sleep: use testing/synctest, or wait for a named signal"))
			}
		})
		for _, spec := range s.tree.Imports {
			if importPath(spec) == "time" && spec.Name != nil && spec.Name.Name == "." {
				found = append(found, s.finding(spec, "tests must not dot-import time: a sleep could not be seen"))
			}
		}
	}
	return found
}

// machinePath matches absolute paths of somebody's home, work folder or
// scratch folder. What stands before must not make it part of a longer path
// or of a URL.
var machinePath = regexp.MustCompile(`(?:^|[^\w.~$})\]/-])(/(?:root|work|farm|home/[\w.-]+|Users/[\w.-]+|tmp/[\w.-]+)/[\w.-])`)

// CheckPaths reports the paths of one machine in the named files: they mean
// nothing anywhere else. Binary files and checksums are left out.
func CheckPaths(fsys fs.FS, files []string) ([]Finding, error) {
	var found []Finding
	for _, name := range files {
		if path.Ext(name) == ".sum" {
			continue
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if m := machinePath.FindSubmatch(line); m != nil {
				found = append(found, Finding{File: name, Line: i + 1, Text: "a path of one machine (" + string(m[1]) + "...): name it from the repository's root, or use a temporary folder"})
			}
		}
	}
	return found, nil
}
