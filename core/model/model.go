// Package model calls language models: Anthropic's Messages and OpenAI's Chat
// Completions, streamed, over net/http. It sends one request for one call and never
// repeats it: whoever calls decides what an error is worth. What a model answers is
// kept as the provider wrote it, so that it can go back unchanged in the next call.
package model

import (
	"encoding/json"
	"time"
)

// Protocol is how a provider is spoken to.
type Protocol string

// The protocols.
const (
	Anthropic Protocol = "anthropic" // POST /v1/messages
	OpenAI    Protocol = "openai"    // POST /v1/chat/completions
)

// Where the providers are whose protocols these are.
const (
	anthropicURL = "https://api.anthropic.com"
	openAIURL    = "https://api.openai.com/v1"
)

// Model is a model that can be called, and how.
type Model struct {
	Name      string // what the configuration calls it
	Protocol  Protocol
	ID        string // what the provider calls it
	BaseURL   string // empty: the provider whose protocol it is
	Key       string // empty: none is sent
	MaxTokens int    // of an answer
	Window    int    // tokens in all; 0: not known
	// Silence is how long the provider may send nothing, before the answer and within it.
	Silence time.Duration
	Price   *Price // nil: what the table says
}

// Base is the URL that calls go to.
func (m Model) Base() string {
	switch {
	case m.BaseURL != "":
		return m.BaseURL
	case m.Protocol == OpenAI:
		return openAIURL
	}
	return anthropicURL
}

// NeedsKey reports whether the provider answers nobody without a key.
func (m Model) NeedsKey() bool { return m.own() }

// Tokens is how long an answer may be where its request does not say.
func (m Model) Tokens() int {
	if m.MaxTokens > 0 {
		return m.MaxTokens
	}
	return defaultTokens
}

// own reports whether the model is called at the provider whose protocol it speaks.
func (m Model) own() bool {
	return m.BaseURL == "" || m.BaseURL == anthropicURL || m.BaseURL == openAIURL
}

// Request is what a model is asked.
type Request struct {
	System   string
	Messages []Message
	Tools    []Tool
	// MaxTokens bounds the answer; 0: Model.MaxTokens.
	MaxTokens int
	// To is the URL that the request may go to; empty: wherever the model is.
	To string
	// OnText is called with text while it arrives; nil discards it. It must not block.
	OnText func(text string)
}

// Message is one turn: an answer of the model, or a message to it.
type Message struct {
	// Answer is Answer.Blocks of an earlier call, and goes back byte for byte. With it
	// the other fields are empty.
	Answer json.RawMessage
	// Results are those of all tools that the answer before this message called.
	Results []Result
	Text    string
}

// Tool is a tool that the model may call.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage // of its input, an object
}

// Result is what a tool call came to.
type Result struct {
	ID     string // Call.ID
	Text   string
	Failed bool
}

// Answer is what a model said.
type Answer struct {
	// Blocks is the answer as the provider wrote it: for Anthropic the list of content
	// blocks, for OpenAI the message. It is null where the model said nothing at all;
	// that cannot go back.
	Blocks json.RawMessage `json:"blocks"`
	Text   string          `json:"text,omitempty"`
	Calls  []Call          `json:"calls,omitempty"`
	Stop   Stop            `json:"stop"`
	// StopText is the provider's own word for it.
	StopText  string `json:"stop_text,omitempty"`
	Model     string `json:"model,omitempty"` // that answered, as the provider calls it
	RequestID string `json:"request_id,omitempty"`
	Usage     *Usage `json:"usage,omitempty"` // nil: the provider has not said
}

// Call is a tool call that a model asks for.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Input are the arguments as the model wrote them; nil when that is no JSON object.
	Input json.RawMessage `json:"input,omitempty"`
}

// Stop says why an answer ended.
type Stop string

// Why answers end.
const (
	StopEnd      Stop = "end_turn"
	StopTools    Stop = "tool_use"
	StopTokens   Stop = "max_tokens"
	StopContext  Stop = "context_full" // the window was full in the middle of the answer
	StopRefusal  Stop = "refusal"
	StopPause    Stop = "pause_turn"    // the provider wants to be called again with the answer
	StopSequence Stop = "stop_sequence" // a text that was to end it
	StopOther    Stop = "other"         // a word that pml does not know, in StopText
)

// Usage is what a call has used, in tokens. Input does not count what was read from
// or written to the provider's cache.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// reported is the usage that a provider names: no prompt has no tokens, so one that
// says so has not counted.
func (u *Usage) reported() *Usage {
	if u == nil || u.Prompt() == 0 {
		return nil
	}
	return u
}

// Prompt is the number of tokens that were sent, cached or not.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }
