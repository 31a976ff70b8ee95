package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
)

// fault is an error that does not name the model yet: its message goes on after the
// name, as in "answered with …".
type fault struct {
	code core.Code
	text string
	// after is how long the provider wants to be left alone; 0: it has not said.
	after time.Duration
	// next is what helps, where it is not what helps with every error of the code.
	next string
}

// whole is the message with what to do next.
func (f *fault) whole() string {
	next := f.next
	if next == "" {
		next = advice[f.code]
	}
	if f.after > 0 {
		next = fmt.Sprintf("try again in %d s", f.seconds())
	}
	if next == "" {
		return f.text
	}
	return f.text + "; " + next
}

// withNext returns the fault with what helps.
func (f *fault) withNext(next string) *fault {
	f.next = next
	return f
}

// Error implements error.
func (f *fault) Error() string { return f.text }

// seconds is after, rounded up.
func (f *fault) seconds() int { return int(math.Ceil(f.after.Seconds())) }

func faultf(code core.Code, format string, args ...any) *fault {
	return &fault{code: code, text: fmt.Sprintf(format, args...)}
}

// broken is a stream that is not what the protocol says.
func broken(format string, args ...any) error { return faultf(core.CodeModelStream, format, args...) }

func tooLarge(format string, args ...any) error {
	return faultf(core.CodeResultTooLarge, format, args...)
}

// cutOff is a stream that ended before the answer was whole.
func cutOff(err error) error {
	if err == nil {
		return faultf(core.CodeModelStream, "ended its stream before the answer was whole")
	}
	return faultf(core.CodeModelStream, "broke off in the middle of its answer: %s", core.Visible(err.Error(), 200, false))
}

// said is what providers say of an error, in one of their forms.
type said struct {
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"` // a word or a number
	Message string          `json:"message"`
}

// word is the provider's own code for an error.
func (s said) word() string {
	var word string
	if json.Unmarshal(s.Code, &word) == nil && word != "" {
		return word
	}
	return s.Type
}

func (s said) text() string {
	message := core.Visible(strings.Join(strings.Fields(s.Message), " "), 300, false)
	word := core.Visible(s.word(), 60, false)
	switch {
	case message == "" && word == "":
		return "without a reason"
	case message == "":
		return word
	case word == "":
		return message
	}
	return word + ": " + message
}

// kinds are the words that tell what is wrong better than the status does.
var kinds = map[string]core.Code{
	"rate_limit_error":                core.CodeRateLimited,
	"rate_limit_exceeded":             core.CodeRateLimited,
	"overloaded_error":                core.CodeModelUnavailable,
	"api_error":                       core.CodeModelUnavailable,
	"timeout_error":                   core.CodeModelUnavailable,
	"server_error":                    core.CodeModelUnavailable,
	"authentication_error":            core.CodeModelKeyRefused,
	"permission_error":                core.CodeModelKeyRefused,
	"invalid_api_key":                 core.CodeModelKeyRefused,
	"billing_error":                   core.CodeModelQuota,
	"insufficient_quota":              core.CodeModelQuota,
	"request_too_large":               core.CodeModelContext,
	"context_length_exceeded":         core.CodeModelContext,
	"exceed_context_size_error":       core.CodeModelContext,
	"content_filter":                  core.CodeModelRefused,
	"content_policy_violation":        core.CodeModelRefused,
	"invalid_prompt":                  core.CodeModelRefused,
	"responsible_ai_policy_violation": core.CodeModelRefused,
}

// Providers say in words only that a conversation is too long, or that they did not
// like it.
var (
	tooLong  = []string{"prompt is too long", "exceed context limit", "maximum context length", "context window", "context length", "too many tokens"}
	unwanted = []string{"content filtering policy", "content management policy", "usage policy"}
)

// codeOf tells what an error is, by the provider's word, its status and its message.
func codeOf(status int, s said) core.Code {
	for _, word := range []string{s.word(), s.Type} {
		if code, ok := kinds[word]; ok {
			return code
		}
	}
	message := strings.ToLower(s.Message)
	holds := func(list []string) bool {
		return slices.ContainsFunc(list, func(words string) bool { return strings.Contains(message, words) })
	}
	switch {
	case status == http.StatusTooManyRequests:
		return core.CodeRateLimited
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return core.CodeModelKeyRefused
	case status == http.StatusPaymentRequired:
		return core.CodeModelQuota
	case status == http.StatusRequestEntityTooLarge || holds(tooLong):
		return core.CodeModelContext
	case holds(unwanted):
		return core.CodeModelRefused
	case status >= 500 || status == http.StatusRequestTimeout || status == 0:
		return core.CodeModelUnavailable
	}
	return core.CodeModelInvalid
}

// advice says what helps.
var advice = map[core.Code]string{
	core.CodeModelKeyRefused: "check the key, and that it may use this model",
	core.CodeModelQuota:      "look at the account's limits and bills with the provider",
	core.CodeModelContext:    "send less, or use a model with a larger window",
	core.CodeModelInvalid:    "check the model's name and its base_url",

	core.CodeRateLimited:       "wait a minute and try again, or use another model",
	core.CodeModelUnavailable:  "try again later, or use another model",
	core.CodeModelRefused:      "ask for it in other words, or use another model",
	core.CodeModelStream:       "nothing of the answer is used; try again, and check protocol and base_url if it stays so",
	core.CodeResultTooLarge:    "nothing of the answer is used; ask for less, or lower max_tokens in its entry of models",
	core.CodeModelTimeout:      "try again, or raise timeout in its entry of models",
	core.CodeServerUnreachable: "check base_url and the network",
}

func faultOf(status int, s said) *fault {
	f := faultf(codeOf(status, s), "refused the request: %s", s.text())
	if status != 0 {
		f.text = fmt.Sprintf("answered with status %d, %s", status, s.text())
	}
	return f
}

// streamError is an error that came in the stream.
func streamError(raw json.RawMessage) error {
	var s said
	if json.Unmarshal(raw, &s) != nil {
		_ = json.Unmarshal(raw, &s.Message) // some send a text
	}
	status := 0
	if n, err := strconv.Atoi(strings.Trim(string(s.Code), `"`)); err == nil && n >= 400 && n < 600 {
		status = n
	}
	return faultOf(status, s)
}

// statusError is an answer with a status other than 200.
func statusError(status int, h http.Header, body []byte, now time.Time) *fault {
	var doc struct {
		Error json.RawMessage `json:"error"`
	}
	var s said
	if json.Unmarshal(body, &doc) == nil && json.Unmarshal(doc.Error, &s) != nil {
		_ = json.Unmarshal(doc.Error, &s.Message) // Ollama sends a text
	}
	if status >= 300 && status < 400 {
		return faultf(core.CodeModelInvalid, "answered with a redirect, which is not followed because the key and the conversation go to base_url only").withNext("write the right base_url")
	}
	f := faultOf(status, s)
	f.after = retryAfter(h, now)
	return f
}

// maxRetryAfter is the longest wait that is believed.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads how long to wait: in seconds, milliseconds, or until a time.
func retryAfter(h http.Header, now time.Time) time.Duration {
	var d time.Duration
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		d = seconds(ms / 1000)
	} else if s, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		d = seconds(s)
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}

func seconds(s float64) time.Duration {
	if math.IsNaN(s) || s > maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	return time.Duration(s * float64(time.Second))
}

// errSilent is why a call ends whose provider sends nothing.
var errSilent = errors.New("the provider sent nothing for too long")

// transportFault is a request that got no answer, or not the whole of it.
func transportFault(ctx context.Context, m Model, err error) error {
	f, mine := errors.AsType[*fault](err)
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		return faultf(core.CodeModelTimeout, "sent nothing for %s", m.Silence)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return faultf(core.CodeModelTimeout, "did not end its answer in the time that the call had").withNext("give it more time")
	case ctx.Err() != nil:
		return faultf(core.CodeCancelled, "was not waited for: the call was cancelled")
	case mine:
		return f
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL
	}
	return faultf(core.CodeServerUnreachable, "cannot be reached: %s", core.Visible(err.Error(), 200, false))
}
