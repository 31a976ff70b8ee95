package env

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// ModelProtocol is how the provider of a model is spoken to.
type ModelProtocol string

// The protocols of models.
const (
	ModelAnthropic ModelProtocol = "anthropic" // Messages
	ModelOpenAI    ModelProtocol = "openai"    // Chat Completions
)

// ModelEntry is one of models as it is written: nothing is expanded.
type ModelEntry struct {
	Name     string        `json:"-"`
	Protocol ModelProtocol `json:"protocol,omitempty"`
	Model    string        `json:"model,omitempty"` // what the provider calls it
	BaseURL  string        `json:"base_url,omitempty"`
	APIKey   string        `json:"api_key,omitempty"`
	// MaxTokens bounds an answer; 0: the default.
	MaxTokens int64 `json:"max_tokens,omitempty"`
	// Window is how many tokens it takes in all; 0: not said.
	Window int64 `json:"window,omitempty"`
	// Timeout is how long the provider may send nothing; 0: the default.
	Timeout duration      `json:"timeout,omitzero"`
	Price   *ModelPrice   `json:"price,omitempty"`
	Origin  Origin        `json:"-"` // FromHome, FromWorkspace, or FromEnvironment without an entry
	File    string        `json:"-"` // the file that defines it
	At      core.Position `json:"-"`
}

// ModelPrice is what a million tokens cost in dollars; what is nil is not known.
type ModelPrice struct {
	Input      *float64 `json:"input,omitempty"`
	Output     *float64 `json:"output,omitempty"`
	CacheRead  *float64 `json:"cache_read,omitempty"`
	CacheWrite *float64 `json:"cache_write,omitempty"`
}

// ResolvedModel is a model's entry with everything expanded.
type ResolvedModel struct {
	Entry     ModelEntry // as written
	Model     string
	BaseURL   string // empty: the provider whose protocol it is
	Key       string
	MaxTokens int
	Timeout   time.Duration // 0: the default
	// Missing are the variables of the key that are unset, empty or placeholders.
	Missing []string
}

// modelsPart is models as a file says it.
type modelsPart struct {
	Default *string                `json:"default,omitempty"`
	Entries map[string]*ModelEntry `json:"-"`
}

// MarshalJSON writes it as a file does.
func (p modelsPart) MarshalJSON() ([]byte, error) {
	all := map[string]any{}
	for name, e := range p.Entries {
		all[name] = e
	}
	if p.Default != nil {
		all["default"] = *p.Default
	}
	return json.Marshal(all)
}

// Where a model is without a models block: as the first pml had it, with models of
// today.
var fromKeys = []struct {
	entry          ModelEntry
	key, name, url string // variables
}{
	{ModelEntry{Name: "anthropic", Protocol: ModelAnthropic, Model: "${ANTHROPIC_MODEL:-claude-sonnet-5-5}", APIKey: "${ANTHROPIC_API_KEY}"}, "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "ANTHROPIC_BASE_URL"},
	{ModelEntry{Name: "openai", Protocol: ModelOpenAI, Model: "${OPENAI_MODEL:-gpt-4.1}", APIKey: "${OPENAI_API_KEY}"}, "OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL"},
}

// modelEntries are those that can be used: the configured ones, or without any those
// whose keys are set. The first name is that of the default.
func (c *Config) modelEntries(v *variables) (entries map[string]ModelEntry, byDefault string) {
	if len(c.Models) > 0 {
		byDefault = c.DefaultModel
		if byDefault == "" && len(c.Models) == 1 {
			for name := range c.Models {
				byDefault = name
			}
		}
		return c.Models, byDefault
	}
	entries = map[string]ModelEntry{}
	for _, f := range fromKeys {
		if value, _ := v.lookup(f.key, true); unfilled(value) {
			continue
		}
		e := f.entry
		e.Origin = FromEnvironment
		if v.environ.get(f.url) != "" { // of the environment only: it says where the key goes
			e.BaseURL = "${" + f.url + "}"
		}
		entries[e.Name] = e
		if byDefault == "" {
			byDefault = e.Name
		}
	}
	return entries, byDefault
}

// ModelNames lists the models that can be named, sorted, and the one that is meant
// where none is. Error: core.CodeInvalidConfig for a malformed .env.
func (c *Config) ModelNames() (names []string, byDefault string, err error) {
	v := c.variables()
	entries, byDefault := c.modelEntries(v)
	return slices.Sorted(maps.Keys(entries)), byDefault, v.err()
}

// HasModel reports whether there is a model that can be named.
func (c *Config) HasModel() bool {
	entries, _ := c.modelEntries(c.variables())
	return len(entries) > 0
}

// ResolveModel expands the entry of a model, of the default one without a name; .env
// is read again each time. Only the key takes something from .env, for entries of the
// home as well: where a conversation is sent to is not for a key file to say. A missing
// key is no error but Missing. Errors: core.CodeModelNoKey when there is no model at
// all, core.CodeNotFound for one that is not there, core.CodeInvalidConfig.
func (c *Config) ResolveModel(name string) (ResolvedModel, error) {
	v := c.variables()
	entries, byDefault := c.modelEntries(v)
	if err := v.err(); err != nil {
		return ResolvedModel{}, err
	}
	if len(entries) == 0 {
		return ResolvedModel{}, core.Errorf(core.CodeModelNoKey,
			"no model is configured: set ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment or in .env, or describe models in \"models\" of %s or of config.json in pml's home", configName).
			WithNext("pml", "config", "schema")
	}
	if name == "" && byDefault == "" {
		return ResolvedModel{}, core.Errorf(core.CodeInvalidConfig, "there are several models and none is named; name one, or say \"default\" in models").WithNext("pml", "models", "ls")
	}
	if name == "" {
		name = byDefault
	}
	e, ok := entries[name]
	if !ok {
		return ResolvedModel{}, core.Errorf(core.CodeNotFound, "there is no model %q%s",
			core.Visible(name, 60, false), core.Suggest(name, slices.Collect(maps.Keys(entries)))).WithNext("pml", "models", "ls")
	}
	r, faults := c.resolveModel(v, e)
	if err := v.err(); err != nil {
		return ResolvedModel{}, err
	}
	if len(faults) > 0 {
		return ResolvedModel{}, &core.Error{
			Code: core.CodeInvalidConfig, Message: fmt.Sprintf("the model %q cannot be used", name), Faults: faults,
		}
	}
	return r, nil
}

func (c *Config) resolveModel(v *variables, e ModelEntry) (ResolvedModel, []core.Fault) {
	r := ResolvedModel{Entry: e, MaxTokens: int(e.MaxTokens), Timeout: time.Duration(e.Timeout)}
	var faults []core.Fault
	fault := func(key, message string) {
		f := core.Fault{File: e.File, Path: pointer("/models", e.Name) + "/" + key, Message: message}
		if p, _ := c.find(f.Path); p.file != nil {
			if at, ok := p.file.pos[f.Path]; ok {
				f.At = &at
			}
		}
		faults = append(faults, f)
	}
	expand := func(key, text string) string {
		x := v.expand(text, false)
		for _, name := range x.unset {
			fault(key, fmt.Sprintf("${%s} is not set; set it in the environment, or write ${%s:-default}", name, name))
		}
		return x.value
	}
	r.Model, r.BaseURL = expand("model", e.Model), expand("base_url", e.BaseURL)
	if len(faults) == 0 && r.BaseURL != "" {
		if err := checkURL(r.BaseURL); err != nil {
			fault("base_url", err.Error())
		}
	}
	x := v.expand(e.APIKey, true)
	r.Key, r.Missing = x.value, append(x.unset, x.fake...)
	if len(r.Missing) > 0 {
		r.Key = ""
	}
	slices.Sort(r.Missing)
	return r, faults
}

// modelSecrets notes the values of the keys of models.
func (c *Config) modelSecrets(v *variables, s *secrets) {
	note := func(e ModelEntry) {
		x := v.expand(e.APIKey, true)
		for variable, value := range x.used {
			c.note(s, e.Name, variable, value)
		}
		c.note(s, e.Name, "api_key", x.value)
	}
	for _, entries := range []map[string]*ModelEntry{c.work.layer.Models.Entries, c.home.layer.Models.Entries} {
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			note(*entries[name])
		}
	}
	entries, _ := c.modelEntries(v)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		note(entries[name])
	}
}

func (m *merger) models(home, work modelsPart) map[string]ModelEntry {
	var out map[string]ModelEntry
	for _, l := range []struct {
		f       *file
		entries map[string]*ModelEntry
	}{{m.home, home.Entries}, {m.work, work.Entries}} {
		for name, e := range l.entries {
			if out == nil {
				out = map[string]ModelEntry{}
			}
			out[name] = *e
			at := pointer("/models", name)
			m.from(at, l.f, at)
		}
	}
	return out
}

func modelsSchema() sch {
	entry := schObject("", new(ModelEntry).fields())
	entry["required"] = []string{"protocol", "model"}
	return sch{
		"type": "object", "additionalProperties": entry,
		"properties":  sch{"default": schString("The name of the model that is meant where none is named. With one model it is that.")},
		"description": "The models that can be called, by name. Without any: those of ANTHROPIC_API_KEY and OPENAI_API_KEY.",
	}
}

// readModels reads models: the name of the default among the entries.
func readModels(to *modelsPart) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		to.Entries = map[string]*ModelEntry{}
		d.members(v, at, func(name string, key, member jsonc.Value, at string) {
			if name == "default" {
				readString(&to.Default)(d, member, at)
				return
			}
			if name == "" || len(name) > 100 || !plainName(name) {
				d.fault(key, at, "%q cannot be the name of a model: %s", core.Visible(name, 60, false), namesAre)
			}
			e := &ModelEntry{Name: name, Origin: d.file.origin, File: d.file.name, At: d.doc.At(member.StartOffset)}
			before := len(d.faults)
			d.object(member, at, e.fields())
			if len(d.faults) == before && (e.Protocol == "" || e.Model == "") {
				d.fault(member, at, "needs a protocol and a model")
			}
			to.Entries[name] = e
		})
		if len(to.Entries) == 0 {
			to.Entries = nil
		}
	}
}

func (e *ModelEntry) fields() []field {
	text := func(to *string) func(*decoder, jsonc.Value, string) {
		return func(d *decoder, v jsonc.Value, at string) {
			if s, ok := d.str(v, at); ok {
				d.checkRefs(v, at, s)
				*to = s
			}
		}
	}
	price := new(ModelPrice).fields()
	return []field{
		{"protocol", schEnum("How it is spoken to: anthropic is Messages, openai Chat Completions, which most others speak.", string(ModelAnthropic), string(ModelOpenAI)), func(d *decoder, v jsonc.Value, at string) {
			var p *string
			if readEnum(&p, string(ModelAnthropic), string(ModelOpenAI))(d, v, at); p != nil {
				e.Protocol = ModelProtocol(*p)
			}
		}},
		{"model", schString("What the provider calls it. ${VAR} is expanded from the environment, here and in base_url."), text(&e.Model)},
		{"base_url", schString("Where it is, e.g. http://127.0.0.1:11434/v1. Default: Anthropic or OpenAI themselves."), func(d *decoder, v jsonc.Value, at string) {
			text(&e.BaseURL)(d, v, at)
			if e.BaseURL == "" || strings.Contains(e.BaseURL, "${") {
				return
			}
			if err := checkURL(e.BaseURL); err != nil {
				d.fault(v, at, "%s", err)
			}
		}},
		{"api_key", schString("Its key, as ${VAR} with the value in the environment or in .env."), text(&e.APIKey)},
		{"max_tokens", schInt(1, maxCount, "The longest answer in tokens. Default 4096."), func(d *decoder, v jsonc.Value, at string) {
			var n *int64
			if readInt(&n, 1, maxCount)(d, v, at); n != nil {
				e.MaxTokens = *n
			}
		}},
		{"window", schInt(1, maxCount, "How many tokens it takes in all. An agent's conversation is summarised before it is longer."), func(d *decoder, v jsonc.Value, at string) {
			var n *int64
			if readInt(&n, 1, maxCount)(d, v, at); n != nil {
				e.Window = *n
			}
		}},
		{"timeout", schDuration("How long the provider may send nothing. Default 2m."), func(d *decoder, v jsonc.Value, at string) {
			var t *duration
			if readDuration(&t)(d, v, at); t != nil {
				e.Timeout = *t
			}
		}},
		{"price", schObject("What a million tokens cost in dollars, where pml does not know it or it is another one.", price), func(d *decoder, v jsonc.Value, at string) {
			e.Price = &ModelPrice{}
			d.object(v, at, e.Price.fields())
		}},
	}
}

func (p *ModelPrice) fields() []field {
	amount := func(name, doc string, to **float64) field {
		return field{name, sch{"type": "number", "minimum": 0, "description": doc}, func(d *decoder, v jsonc.Value, at string) {
			lit, ok := d.literal(v, at, '0', "a number")
			if !ok {
				return
			}
			n, err := strconv.ParseFloat(string(lit), 64)
			if err != nil || n < 0 {
				d.fault(v, at, "must be a number of dollars that is not negative")
				return
			}
			*to = &n
		}}
	}
	return []field{
		amount("input", "Of what is sent.", &p.Input), amount("output", "Of what it answers.", &p.Output),
		amount("cache_read", "Of what is read from the provider's cache.", &p.CacheRead),
		amount("cache_write", "Of what is written to it.", &p.CacheWrite),
	}
}
