package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"time"
)

// Package is one version of a package. Files are by slash path; a package.json
// is made of the other fields.
type Package struct {
	Name         string
	Version      string
	Files        map[string]string
	Bin          map[string]string // program to file
	Dependencies map[string]string
	// Scripts are npm's; install, preinstall and postinstall run on installation.
	Scripts map[string]string
	// Fields are further members of package.json, such as os or optionalDependencies.
	Fields map[string]any
}

// published is what a registry has of one name.
type published struct {
	versions map[string]map[string]any // what the documents say
	archives map[string][]byte         // what is served
	tags     map[string]string
}

// Publish publishes a version, which becomes the latest. One that is there is
// replaced in documents and archive, as a registry that lies would do.
func (r *Registry) Publish(packages ...Package) {
	r.t.Helper()
	for _, p := range packages {
		archive, unpacked := r.pack(p)
		version := p.description()
		sum := sha512.Sum512(archive)
		version["dist"] = map[string]any{
			"tarball":      r.URL + "/" + p.Name + "/-/" + path.Base(p.Name) + "-" + p.Version + ".tgz",
			"integrity":    "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			"unpackedSize": unpacked, "fileCount": len(p.Files) + 1,
		}
		for _, name := range []string{"preinstall", "install", "postinstall"} {
			if p.Scripts[name] != "" {
				version["hasInstallScript"] = true
			}
		}
		r.mu.Lock()
		known := r.packages[p.Name]
		if known == nil {
			known = &published{versions: map[string]map[string]any{}, archives: map[string][]byte{}, tags: map[string]string{}}
			r.packages[p.Name] = known
		}
		known.versions[p.Version], known.archives[p.Version], known.tags["latest"] = version, archive, p.Version
		r.mu.Unlock()
	}
}

// Unpublish takes a version away.
func (r *Registry) Unpublish(name, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.packages[name].versions, version)
	delete(r.packages[name].archives, version)
}

// Tag lets a tag stand for a version.
func (r *Registry) Tag(name, tag, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packages[name].tags[tag] = version
}

// Swap serves the archive of p for its version while the documents go on
// promising the one that was published.
func (r *Registry) Swap(p Package) {
	r.t.Helper()
	archive, _ := r.pack(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packages[p.Name].archives[p.Version] = archive
}

// description is the package.json.
func (p Package) description() map[string]any {
	d := map[string]any{"name": p.Name, "version": p.Version}
	maps.Copy(d, p.Fields)
	if len(p.Bin) > 0 {
		d["bin"] = p.Bin
	}
	if len(p.Dependencies) > 0 {
		d["dependencies"] = p.Dependencies
	}
	if len(p.Scripts) > 0 {
		d["scripts"] = p.Scripts
	}
	return d
}

// pack makes the archive, the same for the same package.
func (r *Registry) pack(p Package) (archive []byte, unpacked int) {
	r.t.Helper()
	description, err := json.Marshal(p.description())
	if err != nil {
		r.t.Fatal(err)
	}
	files := map[string]string{"package.json": string(description)}
	maps.Copy(files, p.Files)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	tw := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		unpacked += len(content)
		if err := tw.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(499162500, 0), Typeflag: tar.TypeReg}); err != nil {
			r.t.Fatal(err)
		}
		if _, err := tw.Write([]byte(content)); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		r.t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		r.t.Fatal(err)
	}
	return out.Bytes(), unpacked
}

// document is what the registry says about a name: all of it, or what an
// installation needs.
func (p *published) document(name string, abbreviated bool) map[string]any {
	versions := map[string]any{}
	times := map[string]string{}
	for version, fields := range p.versions {
		v := maps.Clone(fields)
		if abbreviated {
			delete(v, "scripts")
		} else {
			delete(v, "hasInstallScript")
		}
		versions[version], times[version] = v, "2026-01-01T00:00:00.000Z"
	}
	d := map[string]any{"name": name, "dist-tags": maps.Clone(p.tags), "versions": versions, "modified": "2026-01-01T00:00:00.000Z"}
	if !abbreviated {
		d["_id"], d["time"] = name, times
	}
	return d
}
