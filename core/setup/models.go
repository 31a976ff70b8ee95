package setup

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/api"
	"github.com/casys-ai/pml/core/env"
	"github.com/casys-ai/pml/core/model"
)

// Models are the models of the workspace and the home.
type Models struct{ base }

// Models lists them: those that count, and those that wait for trust.
func (s *Models) Models(context.Context) ([]api.Model, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	names, byDefault, err := cfg.ModelNames()
	if err != nil {
		return nil, err
	}
	out := []api.Model{}
	for _, name := range names {
		m := modelOf(cfg, name)
		m.Default = name == byDefault
		out = append(out, m)
	}
	all, err := s.load()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all.Models)) {
		e := all.Models[name]
		if _, counts := cfg.Models[name]; e.Origin == env.FromWorkspace && (!counts || cfg.Models[name].Origin != e.Origin) {
			m := modelEntry(e)
			m.State, m.BaseURL = api.ModelNotTrusted, e.BaseURL
			out = append(out, m)
		}
	}
	return out, nil
}

func modelEntry(e env.ModelEntry) api.Model {
	return api.Model{Name: e.Name, Protocol: string(e.Protocol), Model: e.Model, MaxTokens: int(e.MaxTokens), From: string(e.Origin), File: e.File}
}

func modelOf(cfg *env.Config, name string) api.Model {
	r, err := cfg.ResolveModel(name)
	if err != nil {
		out := api.Model{Name: name, State: api.ModelInvalid, Error: err.Error()}
		if e, ok := cfg.Models[name]; ok {
			out = modelEntry(e)
			out.State, out.Error, out.BaseURL = api.ModelInvalid, err.Error(), e.BaseURL
		}
		return out
	}
	out, m := modelEntry(r.Entry), callable(r)
	out.Model, out.BaseURL, out.State, out.Missing = r.Model, m.Base(), api.ModelReady, r.Missing
	if len(r.Missing) > 0 || m.Key == "" && m.NeedsKey() {
		out.State = api.ModelNoKey
	}
	if p, ok := m.Prices(); ok {
		out.Price = &api.ModelPrice{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, UpTo: p.UpTo}
		if m.Price == nil {
			out.Price.AsOf = model.PricesAsOf()
		}
	}
	return out
}

// ModelOf is a model of a configuration that can be called now, the default one without a
// name. Errors are those of ModelFor, and core.CodeModelNoKey where the variables of its
// key are not set.
func ModelOf(cfg *env.Config, name string) (model.Model, error) {
	m, missing, err := ModelFor(cfg, name)
	if err == nil && len(missing) > 0 {
		return m, core.Errorf(core.CodeModelNoKey, "the model %q has no key: set %s in the environment or in .env", m.Name, strings.Join(missing, ", "))
	}
	return m, err
}

// ModelFor is a model of a configuration, the default one without a name, and the variables
// of its key that are not set. Errors are those of env.Config.ResolveModel, and
// core.CodeModelNoKey where its entry names no key that its provider wants.
func ModelFor(cfg *env.Config, name string) (m model.Model, missing []string, err error) {
	r, err := cfg.ResolveModel(name)
	if err != nil {
		return m, nil, err
	}
	m = callable(r)
	if len(r.Missing) == 0 && m.Key == "" && m.NeedsKey() {
		return m, nil, core.Errorf(core.CodeModelNoKey, "the model %q has no key: write \"api_key\": \"${VAR}\" into its entry of models, and set VAR in the environment or in .env", m.Name).
			WithNext("pml", "models", "ls")
	}
	return m, r.Missing, nil
}

// callable is a model as core/model calls it.
func callable(r env.ResolvedModel) model.Model {
	m := model.Model{
		Name: r.Entry.Name, Protocol: model.Protocol(r.Entry.Protocol), ID: r.Model, BaseURL: r.BaseURL, Key: r.Key,
		MaxTokens: r.MaxTokens, Window: int(r.Entry.Window), Silence: r.Timeout,
	}
	if p := r.Entry.Price; p != nil {
		m.Price = &model.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	return m
}

const (
	checkTokens = 512 // room for a model that thinks first
	checkTool   = "pml_check"
	checkWord   = "heron-17" // what the tool says, which the model cannot know
)

// CheckModel implements api.Models.
func (s *Models) CheckModel(ctx context.Context, name string, tools bool) (api.ModelCheck, error) {
	cfg, err := s.config()
	if err != nil {
		return api.ModelCheck{}, err
	}
	if _, err := cfg.ResolveModel(name); err != nil {
		return api.ModelCheck{}, s.waitsForTrust(name, err)
	}
	m, err := ModelOf(cfg, name)
	if err != nil {
		return api.ModelCheck{}, err
	}
	c := modelCheck{client: model.NewClient(nil, s.o.Clock), m: m, clock: s.o.Clock, out: api.ModelCheck{Name: m.Name}}
	if tools {
		err = c.tools(ctx)
	} else {
		err = c.word(ctx)
	}
	return c.out, err
}

// waitsForTrust says of a model that is not found that the workspace names it.
func (s *Models) waitsForTrust(name string, err error) error {
	if code := core.CodeOf(err); code != core.CodeNotFound && code != core.CodeModelNoKey {
		return err
	}
	all, bad := s.load()
	if bad != nil || len(all.Models) == 0 {
		return err
	}
	if name == "" {
		name = all.DefaultModel
	}
	if e, ok := all.Models[name]; name != "" && (!ok || e.Origin != env.FromWorkspace) {
		return err
	}
	return core.Errorf(core.CodeNotTrusted, "the models of %s count after a person has trusted it: what is said to them goes where its file says", s.o.Workspace.Dir).WithNext("pml", "trust")
}

// modelCheck is a check of a model under way.
type modelCheck struct {
	client *model.Client
	m      model.Model
	clock  core.Clock
	out    api.ModelCheck
}

// word has the model say something.
func (c *modelCheck) word(ctx context.Context) error {
	_, err := c.call(ctx, model.Request{Messages: []model.Message{{Text: "Answer with the word ready, and nothing else."}}})
	return err
}

// tools has the model call a tool, and tell what that said.
func (c *modelCheck) tools(ctx context.Context) error {
	r := model.Request{
		System:   "You check whether tools work. Call the tool that you are told to call, once.",
		Messages: []model.Message{{Text: "Call " + checkTool + " with the name of any bird. Then answer with the word that it returns, and nothing else."}},
		Tools: []model.Tool{{
			Name: checkTool, Description: "Returns a word.",
			Schema: json.RawMessage(`{"type":"object","properties":{"bird":{"type":"string"}},"required":["bird"]}`),
		}},
	}
	a, err := c.call(ctx, r)
	if err != nil {
		return err
	}
	works := false
	c.out.Tools = &works
	var results []model.Result
	for _, call := range a.Calls {
		result := model.Result{ID: call.ID, Text: checkWord}
		if call.Name != checkTool || call.Input == nil {
			c.out.Problem = "it called " + core.Visible(call.Name, 60, false) + " with arguments that are no JSON object, or a tool that there is not"
			result = model.Result{ID: call.ID, Text: "there is no such tool, or these are no arguments", Failed: true}
		}
		results = append(results, result)
	}
	if len(results) == 0 {
		c.out.Problem = "it called no tool"
		return nil
	}
	r.Messages = append(r.Messages, model.Message{Answer: a.Blocks}, model.Message{Results: results})
	if a, err = c.call(ctx, r); err != nil {
		return err
	}
	if works = strings.Contains(a.Text, checkWord) && c.out.Problem == ""; !works && c.out.Problem == "" {
		c.out.Problem = "it did not use what the tool returned"
	}
	return nil
}

// call makes a call and adds to the check what it was like.
func (c *modelCheck) call(ctx context.Context, r model.Request) (model.Answer, error) {
	r.MaxTokens = checkTokens
	if c.m.MaxTokens > 0 {
		r.MaxTokens = min(r.MaxTokens, c.m.MaxTokens)
	}
	if c.out.Calls == 0 {
		worst := c.m.Worst(r)
		c.out.Estimate = api.ModelUsage(worst)
		if usd, ok := c.m.Cost(&worst); ok {
			c.out.WorstUSD = &usd
		}
	}
	began, first := c.clock.Now(), time.Time{}
	r.OnText = func(string) {
		if first.IsZero() {
			first = c.clock.Now()
		}
	}
	a, err := c.client.Call(ctx, c.m, r)
	c.out.Calls++
	c.out.TotalMS += c.clock.Now().Sub(began).Milliseconds()
	if err != nil {
		return a, err
	}
	if !first.IsZero() {
		c.out.FirstMS = first.Sub(began).Milliseconds()
	}
	c.out.Model, c.out.Answer, c.out.Stop, c.out.StopText = a.Model, a.Text, string(a.Stop), a.StopText
	if a.RequestID != "" {
		c.out.RequestIDs = append(c.out.RequestIDs, a.RequestID)
	}
	c.used(a)
	return a, nil
}

// used adds the usage and the cost of a call: they are known if those of all calls are.
func (c *modelCheck) used(a model.Answer) {
	usd, known := c.m.Cost(a.Usage)
	switch {
	case c.out.Calls == 1:
		c.out.Usage = (*api.ModelUsage)(a.Usage)
		if known {
			c.out.USD = &usd
		}
		return
	case a.Usage == nil:
		c.out.Usage = nil
	case c.out.Usage != nil:
		u := c.out.Usage
		c.out.Usage = &api.ModelUsage{
			Input: u.Input + a.Usage.Input, Output: u.Output + a.Usage.Output,
			CacheRead: u.CacheRead + a.Usage.CacheRead, CacheWrite: u.CacheWrite + a.Usage.CacheWrite,
		}
	}
	if c.out.USD == nil || !known {
		c.out.USD = nil
		return
	}
	usd += *c.out.USD
	c.out.USD = &usd
}
