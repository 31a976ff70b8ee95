package env

import (
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/joho/godotenv"

	"github.com/casys-ai/pml/core"
)

const (
	maxDotEnv       = 1 << 20 // bytes
	maxDotEnvFaults = 20
	maxQuotedLines  = 200 // of one quoted value, when looking for what is wrong
)

// variables looks up what ${VAR} stands for: the process environment first,
// then .env, which is read when it is first needed and belongs to this lookup
// alone. An empty variable counts as one that is not set.
type variables struct {
	environ Environ
	path    string
	read    bool
	values  map[string]string
	faults  []core.Fault
}

func (c *Config) variables() *variables {
	return &variables{environ: c.environ, path: c.Workspace.DotEnv()}
}

func (v *variables) lookup(name string, dotenv bool) (value string, fromFile bool) {
	if value := v.environ.get(name); value != "" || !dotenv {
		return value, false
	}
	v.load()
	return v.values[name], true
}

// load reads .env, once.
func (v *variables) load() {
	if v.read {
		return
	}
	v.read = true
	data, fault := readBounded(v.path, maxDotEnv)
	if fault != nil {
		v.faults = []core.Fault{*fault}
		return
	}
	v.values, v.faults = ParseDotEnv(v.path, data)
}

// err is the fault of a .env that was needed and is malformed.
func (v *variables) err() error {
	if len(v.faults) == 0 {
		return nil
	}
	return &core.Error{
		Code:    core.CodeInvalidConfig,
		Message: "the file with the keys is not valid; correct it and try again",
		Faults:  v.faults,
	}
}

// ParseDotEnv reads the text of a .env file. What can be read is returned
// even if lines are malformed; each of those is a fault with its line. Values
// are never part of a fault.
func ParseDotEnv(name string, data []byte) (map[string]string, []core.Fault) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, []core.Fault{{File: name, Message: "is not UTF-8 text"}}
	}
	values, err := godotenv.Unmarshal(text)
	if err == nil && namesValid(values) {
		return values, nil
	}
	return parseByStatement(name, strings.Split(text, "\n"))
}

func namesValid(values map[string]string) bool {
	for name := range values {
		if name == "" || strings.ContainsAny(name, " \t\n") {
			return false
		}
	}
	return true
}

// parseByStatement finds out which lines are wrong: the parser says only that
// something is, and repeats values in its errors.
func parseByStatement(name string, lines []string) (map[string]string, []core.Fault) {
	values := map[string]string{}
	var faults []core.Fault
	for i := 0; i < len(lines); {
		most := maxQuotedLines
		if len(faults) == maxDotEnvFaults {
			most = 1 // what follows may still hold keys
		}
		n, got := statement(lines[i:min(len(lines), i+most)])
		if n == 0 {
			n = 1
			if len(faults) < maxDotEnvFaults {
				faults = append(faults, core.Fault{
					File: name, At: &core.Position{Line: i + 1, Column: 1},
					Message: fmt.Sprintf("line %d is not NAME=value; a quote may be missing", i+1),
				})
			}
		}
		maps.Copy(values, got)
		i += n
	}
	return values, faults
}

// statement parses the assignment that begins with the first line and tells
// how many lines it takes; 0 when it is malformed.
func statement(lines []string) (n int, values map[string]string) {
	quoted := strings.ContainsAny(lines[0], `"'`)
	for n = 1; n <= len(lines); n++ {
		values, err := godotenv.Unmarshal(strings.Join(lines[:n], "\n"))
		if err == nil && namesValid(values) {
			return n, values
		}
		if !quoted {
			break
		}
	}
	return 0, nil
}
