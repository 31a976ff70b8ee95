package env

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/casys-ai/pml/core"
)

// Home is pml's own folder: databases, packages, credentials and what this
// machine trusts. Folders in it are 0700, files 0600.
type Home struct{ Dir string }

// FindHome returns the home: the flag, else PML_HOME, else .pml in the user's
// home folder. A relative path counts from the current folder. The folder
// need not exist. Error: core.CodeInvalidConfig when no home folder is known.
func FindHome(flag string, e Environ) (Home, error) {
	dir := flag
	if dir == "" {
		dir = e.get("PML_HOME")
	}
	if dir == "" {
		name := "HOME"
		if runtime.GOOS == "windows" {
			name = "USERPROFILE"
		}
		user := e.get(name)
		if user == "" {
			return Home{}, core.Errorf(core.CodeInvalidConfig,
				"no folder for pml's own files: neither PML_HOME nor %s is set; set PML_HOME or pass --home", name)
		}
		dir = filepath.Join(user, ".pml")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, core.Errorf(core.CodeInvalidConfig, "cannot use %s as pml's home: %w", dir, err)
	}
	return Home{Dir: abs}, nil
}

// Config is the file with the settings of this user.
func (h Home) Config() string { return filepath.Join(h.Dir, "config.json") }

// DotEnv is the file with the keys of this user that belong to no workspace.
func (h Home) DotEnv() string { return filepath.Join(h.Dir, ".env") }

// PendingDir is the folder of pending.db and the files beside it.
func (h Home) PendingDir() string { return h.Dir }

// Trust is the folder with one file for each trusted workspace.
func (h Home) Trust() string { return filepath.Join(h.Dir, "trust") }

// Packages is the folder of installed MCP servers.
func (h Home) Packages() string { return filepath.Join(h.Dir, "packages") }

// Broken is the folder with one file for each server whose last start failed.
func (h Home) Broken() string { return filepath.Join(h.Dir, "broken") }

// Clients is the folder in which processes say which hosts of agents are connected.
func (h Home) Clients() string { return filepath.Join(h.Dir, "clients") }

// Processes is the folder in which processes say which MCP servers they have started.
func (h Home) Processes() string { return filepath.Join(h.Dir, "processes") }

// Live is the folder of the sockets at which processes show what models write.
func (h Home) Live() string { return filepath.Join(h.Dir, "live") }

// Credentials is the folder of OAuth tokens.
func (h Home) Credentials() string { return filepath.Join(h.Dir, "credentials") }

// Keys is the folder of this machine's own keys.
func (h Home) Keys() string { return filepath.Join(h.Dir, "keys") }

// Visitors is the file of the browsers that may see the pages of a server.
func (h Home) Visitors() string { return filepath.Join(h.Dir, "visitors.json") }

// ServerDB is the database of a local server.
func (h Home) ServerDB() string { return filepath.Join(h.Dir, "server.db") }

// Ensure creates the home, 0700, if it is not there. Error:
// core.CodeInvalidConfig naming the folder.
func (h Home) Ensure() error {
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return core.Errorf(core.CodeInvalidConfig,
			"cannot create pml's home %s: %w; set PML_HOME or pass --home to use another folder", h.Dir, err)
	}
	return nil
}

// Workspace is the folder that a run belongs to.
type Workspace struct {
	// Dir is absolute, symbolic links resolved, so that one folder has one name.
	Dir string
	// Source says what made it the workspace: "PML_WORKSPACE", ".pml.json",
	// ".git" or "cwd".
	Source string
}

// FindWorkspace returns PML_WORKSPACE, else the nearest folder from cwd
// upward that holds .pml.json or .git, else cwd. Error:
// core.CodeInvalidConfig when the folder is missing or is none.
func FindWorkspace(cwd string, e Environ) (Workspace, error) {
	if dir := e.get("PML_WORKSPACE"); dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(cwd, dir)
		}
		real, err := realDir(dir)
		if err != nil {
			return Workspace{}, core.Errorf(core.CodeInvalidConfig, "PML_WORKSPACE is not a folder that can be used: %w", err)
		}
		return Workspace{Dir: real, Source: "PML_WORKSPACE"}, nil
	}
	real, err := realDir(cwd)
	if err != nil {
		return Workspace{}, core.Errorf(core.CodeInvalidConfig, "the current folder cannot be used as workspace: %w", err)
	}
	for dir := real; ; {
		for _, mark := range []string{configName, ".git"} {
			if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
				return Workspace{Dir: dir, Source: mark}, nil
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return Workspace{Dir: real, Source: "cwd"}, nil
		}
		dir = up
	}
}

// Config is the workspace's configuration file.
func (w Workspace) Config() string { return filepath.Join(w.Dir, configName) }

// Lock is the workspace's pml.lock.
func (w Workspace) Lock() string { return filepath.Join(w.Dir, "pml.lock") }

// DotEnv is the workspace's .env.
func (w Workspace) DotEnv() string { return filepath.Join(w.Dir, ".env") }

const configName = ".pml.json"

func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &os.PathError{Op: "open", Path: real, Err: os.ErrInvalid}
	}
	return real, nil
}

// Load reads the configuration of the home alone.
func (h Home) Load(e Environ) (*Config, error) {
	return Load(LoadOptions{Workspace: Workspace{Dir: h.Dir, Source: "home"}, Home: h, Environ: e})
}
