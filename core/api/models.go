package api

import "context"

// Models are the language models that are configured here.
type Models interface {
	// Models lists them; nothing is called.
	Models(ctx context.Context) ([]Model, error)
	// CheckModel calls a model, the default one without a name: once, or with tools
	// twice, where the second call gives it the result of the tool that it was to call.
	// Errors are those of the provider, under the codes model_… and rate_limited.
	CheckModel(ctx context.Context, name string, tools bool) (ModelCheck, error)
}

// The states of a model.
const (
	ModelReady      = "ready"       // it can be called; whether it answers, a check says
	ModelNoKey      = "no_key"      // Missing are not set
	ModelNotTrusted = "not_trusted" // the workspace names it, and is not trusted
	ModelInvalid    = "invalid"     // Error says why
)

// Model is a configured model.
type Model struct {
	Name     string `json:"name"`
	Default  bool   `json:"default"` // it is meant where none is named
	State    string `json:"state"`
	Protocol string `json:"protocol"`
	Model    string `json:"model"`    // what the provider calls it
	BaseURL  string `json:"base_url"` // where the conversation goes; as written while it is not trusted
	// Missing are the variables of its key that have no value.
	Missing   []string    `json:"missing,omitempty"`
	Error     string      `json:"error,omitempty"`
	MaxTokens int         `json:"max_tokens,omitempty"` // 0: the default
	Price     *ModelPrice `json:"price,omitempty"`      // nil: not known
	From      string      `json:"from"`                 // home, workspace, or environment without an entry
	File      string      `json:"file,omitempty"`
}

// ModelPrice is what a million tokens cost in dollars; what is nil is not known.
type ModelPrice struct {
	Input      *float64 `json:"input,omitempty"`
	Output     *float64 `json:"output,omitempty"`
	CacheRead  *float64 `json:"cache_read,omitempty"`
	CacheWrite *float64 `json:"cache_write,omitempty"`
	// UpTo is the longest prompt for which that is known; 0: any.
	UpTo int64 `json:"up_to,omitempty"`
	// AsOf is the day on which pml's table was made; empty: the configuration says it.
	AsOf string `json:"as_of,omitempty"`
}

// ModelUsage is what calls have used, in tokens; Input without what was read from or
// written to the provider's cache.
type ModelUsage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// ModelCheck is what a check of a model came to.
type ModelCheck struct {
	Name     string      `json:"name"`
	Model    string      `json:"model"`             // that answered, as the provider calls it
	Answer   string      `json:"answer"`            // its text
	Stop     string      `json:"stop_reason"`       // why it ended, in pml's words
	StopText string      `json:"provider_stop"`     // and in the provider's
	Tools    *bool       `json:"tools,omitempty"`   // whether it called the tool and used its result
	Problem  string      `json:"problem,omitempty"` // with Tools false: what went wrong
	Calls    int         `json:"calls"`             // requests that were sent
	Usage    *ModelUsage `json:"usage,omitempty"`   // of all of them; nil: the provider has not said
	// Estimate is what pml takes at most for the first call.
	Estimate ModelUsage `json:"estimate"`
	USD      *float64   `json:"usd,omitempty"`       // nil: not known
	WorstUSD *float64   `json:"worst_usd,omitempty"` // of Estimate
	// FirstMS and TotalMS are the milliseconds to the first text of the last call, 0
	// where there was none, and of all calls.
	FirstMS    int64    `json:"first_ms,omitempty"`
	TotalMS    int64    `json:"total_ms"`
	RequestIDs []string `json:"request_ids,omitempty"`
}
