package model_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/casys-ai/pml/core/model"
)

func TestCost(t *testing.T) {
	t.Parallel()
	two := 2.0
	own := &model.Price{Input: &two, Output: &two}
	for name, tt := range map[string]struct {
		m     model.Model
		u     *model.Usage
		usd   float64
		known bool
	}{
		"Table":       {model.Model{Protocol: model.Anthropic, ID: "claude-sonnet-5-5"}, &model.Usage{Input: 1e6, Output: 1e5, CacheRead: 1e6, CacheWrite: 1e6}, 2 + 1 + 0.1 + 2.5, true},
		"Snapshot":    {model.Model{Protocol: model.Anthropic, ID: "claude-haiku-4-5-20251001"}, &model.Usage{Input: 1e6}, 1, true},
		"Latest":      {model.Model{Protocol: model.OpenAI, ID: "gpt-4.1-2025-04-14"}, &model.Usage{Output: 1e6}, 8, true},
		"OtherModel":  {model.Model{Protocol: model.OpenAI, ID: "gpt-4.1-huge"}, &model.Usage{Input: 1}, 0, false},
		"OtherPlace":  {model.Model{Protocol: model.OpenAI, ID: "gpt-4.1", BaseURL: "http://127.0.0.1/v1"}, &model.Usage{Input: 1}, 0, false},
		"Configured":  {model.Model{Protocol: model.OpenAI, ID: "x", BaseURL: "http://127.0.0.1/v1", Price: own}, &model.Usage{Input: 1e6, Output: 1e6}, 4, true},
		"PartUnknown": {model.Model{Protocol: model.OpenAI, ID: "x", Price: own}, &model.Usage{Input: 1, CacheRead: 1}, 0, false},
		"NoUsage":     {model.Model{Protocol: model.OpenAI, ID: "gpt-4.1"}, nil, 0, false},
		"LongPrompt":  {model.Model{Protocol: model.Anthropic, ID: "claude-haiku-5-5"}, &model.Usage{Input: 60_000, CacheRead: 60_000}, 0, false},
	} {
		usd, known := tt.m.Cost(tt.u)
		if math.Abs(usd-tt.usd) > 1e-9 || known != tt.known {
			t.Errorf("%s: %v %v", name, usd, known)
		}
	}
	if _, err := time.Parse(time.DateOnly, model.PricesAsOf()); err != nil {
		t.Error(err)
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	r := model.Request{System: strings.Repeat("a", 300), Messages: []model.Message{{Text: strings.Repeat("é", 150)}}, MaxTokens: 10}
	u := model.Model{Protocol: model.Anthropic, ID: "claude-sonnet-5-5"}.Worst(r)
	if u.CacheWrite < 200 || u.CacheWrite > 250 || u.Input != 0 || u.Output != 10 {
		t.Errorf("anthropic: %+v", u)
	}
	r.MaxTokens = 0
	u = model.Model{Protocol: model.OpenAI, ID: "gpt-4.1", MaxTokens: 9}.Worst(r)
	if u.Input < 200 || u.CacheWrite != 0 || u.Output != 9 {
		t.Errorf("openai: %+v", u)
	}
}
