package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// faultOf says where a fault is as a JSON pointer, and names what may have been
// meant by a field that does not exist.
func faultOf(ctx huma.Context, d *huma.ErrorDetail) core.Fault {
	where, rest, _ := strings.Cut(d.Location, ".")
	switch {
	case d.Location == "":
		return core.Fault{Message: d.Message}
	case where == "query" || where == "header" || where == "path":
		return core.Fault{Message: fmt.Sprintf("%s %s: %s", where, core.Visible(rest, 60, false), d.Message)}
	case !strings.HasPrefix(d.Location, "body"):
		return core.Fault{Message: d.Message}
	}
	place := locate(schemaOf(ctx), registryOf(ctx), strings.TrimPrefix(d.Location, "body"))
	if d.Message == validation.MsgUnexpectedProperty {
		return core.Fault{Path: place.pointer, Message: "there is no such field" + core.Suggest(place.last, place.names)}
	}
	if place.schema != nil {
		for _, name := range place.schema.Required {
			if d.Message == huma.ErrorFormatter(validation.MsgExpectedRequiredProperty, name) {
				return core.Fault{Path: place.pointer + "/" + escape(name), Message: "it is required"}
			}
		}
	}
	return core.Fault{Path: place.pointer, Message: d.Message}
}

// place is where a location of huma points to.
type place struct {
	pointer string
	last    string       // the name at its end
	names   []string     // the fields that could stand there
	schema  *huma.Schema // of what is there, nil if unknown
}

// locate follows a location such as .workflow.tasks[0].id through a schema. A
// name that the schema does not have ends it, dots and all.
func locate(schema *huma.Schema, registry huma.Registry, loc string) place {
	p := place{schema: deref(schema, registry)}
	for loc != "" {
		if index, rest, ok := indexed(loc); ok {
			p.pointer += "/" + index
			loc = rest
			if p.schema != nil {
				p.schema = deref(p.schema.Items, registry)
			}
			continue
		}
		loc = strings.TrimPrefix(loc, ".")
		name, rest := loc, ""
		if i := strings.IndexAny(loc, ".["); i > 0 {
			name, rest = loc[:i], loc[i:]
		}
		var next *huma.Schema
		p.names = nil
		if p.schema != nil {
			p.names = slices.Sorted(maps.Keys(p.schema.Properties))
			next = p.schema.Properties[name]
		}
		if next == nil {
			name, rest = loc, ""
		}
		p.pointer, p.last, loc = p.pointer+"/"+escape(name), name, rest
		p.schema = deref(next, registry)
	}
	return p
}

func indexed(loc string) (index, rest string, ok bool) {
	if loc[0] != '[' {
		return "", "", false
	}
	index, rest, ok = strings.Cut(loc[1:], "]")
	if _, err := strconv.Atoi(index); err != nil {
		return "", "", false
	}
	return index, rest, ok
}

func deref(s *huma.Schema, registry huma.Registry) *huma.Schema {
	for s != nil && s.Ref != "" && registry != nil {
		s = registry.SchemaFromRef(s.Ref)
	}
	return s
}

func schemaOf(ctx huma.Context) *huma.Schema {
	if ctx == nil || ctx.Operation() == nil || ctx.Operation().RequestBody == nil {
		return nil
	}
	if m := ctx.Operation().RequestBody.Content["application/json"]; m != nil {
		return m.Schema
	}
	return nil
}

// registryKey is where an operation carries the registry of its schemas.
const registryKey = "registry"

func registryOf(ctx huma.Context) huma.Registry {
	if ctx == nil || ctx.Operation() == nil {
		return nil
	}
	r, _ := ctx.Operation().Metadata[registryKey].(huma.Registry)
	return r
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escape(name string) string { return pointerEscapes.Replace(name) }

// fault is what a request says of itself that its schema cannot.
func fault(pointer, format string, args ...any) error {
	path := "body" + strings.ReplaceAll(pointer, "/", ".")
	return &huma.ErrorDetail{Location: path, Message: fmt.Sprintf(format, args...)}
}

// queryFault is fault for a parameter.
func queryFault(name, format string, args ...any) error {
	return &huma.ErrorDetail{Location: "query." + name, Message: fmt.Sprintf(format, args...)}
}
