package rooms

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// A Source is one parsed Go file of the repository.
type Source struct {
	File string // slash-separated, from the repository's root
	Side bool   // it belongs to another module of the repository, such as bench
	fset *token.FileSet
	tree *ast.File
}

// Load parses every Go file in fsys, whatever its build tags. It leaves out
// what the go command leaves out: testdata, vendor, and names that begin with
// a dot or an underscore. A file that does not parse is an error.
func Load(fsys fs.FS) ([]Source, error) {
	var sources []Source
	side := "" // the module beside the main one that the walk is in
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		hidden := name != "." && (base[0] == '.' || base[0] == '_')
		if d.IsDir() {
			if hidden || base == "testdata" || base == "vendor" {
				return fs.SkipDir
			}
			if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil && name != "." {
				side = name
			}
			return nil
		}
		if hidden || path.Ext(name) != ".go" {
			return nil
		}
		s := Source{File: name, Side: side != "" && covers(side+"/...", path.Dir(name)), fset: token.NewFileSet()}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		s.tree, err = parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("rooms: every Go file must parse: %w", err)
		}
		sources = append(sources, s)
		return nil
	})
	return sources, err
}

// dir is the folder of s, and so the name of its room.
func (s Source) dir() string { return path.Dir(s.File) }

// isTest reports whether s is compiled for tests only.
func (s Source) isTest() bool { return strings.HasSuffix(s.File, "_test.go") }

// finding reports text at the node's line.
func (s Source) finding(at ast.Node, format string, args ...any) Finding {
	return Finding{File: s.File, Line: s.fset.Position(at.Pos()).Line, Text: fmt.Sprintf(format, args...)}
}

// importPath returns the unquoted path of an import.
func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

// names maps the names by which s refers to its imports to their paths. Blank
// and dot imports have no name. The last element is taken for the name, which
// holds for what is looked for.
func (s Source) names() map[string]string {
	names := map[string]string{}
	for _, spec := range s.tree.Imports {
		p := importPath(spec)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name != "_" && name != "." {
			names[name] = p
		}
	}
	return names
}

// eachUse calls f for every mention pkg.Name of something imported, with the
// package's path. A local variable that hides an import is taken for it:
// rename the variable.
func (s Source) eachUse(f func(at ast.Node, pkg, name string)) {
	names := s.names()
	ast.Inspect(s.tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] != "" {
			f(sel, names[x.Name], sel.Sel.Name)
		}
		return true
	})
}
