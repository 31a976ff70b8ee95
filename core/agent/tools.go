package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/casys-ai/pml/core"
)

// answer is a tool that asks a model one thing, without tools: how it is called, what the
// model is asked, and what its result is made of.
type answer struct {
	name, about      string
	input, required  string // properties of its input, and the names of those that are needed
	output, outputAs string // properties of its result and their names; empty: anything
	tokens           int    // of the answer at most
	ask              func(in input) question
	// value makes the result; nil: what the model said is it.
	value func(in input, r core.AgentResult) any
}

// question is what a model is asked in one go.
type question struct {
	goal   string
	data   any             // shown as data
	schema json.RawMessage // of the answer; nil: text
	tokens int             // 0: as the tool says
}

// input are the arguments of all these tools; each takes some of them.
type input struct {
	Question     string          `json:"question"`
	Context      json.RawMessage `json:"context"`
	Options      []string        `json:"options"`
	Data         json.RawMessage `json:"data"`
	Focus        string          `json:"focus"`
	Format       string          `json:"format"`
	Content      string          `json:"content"`
	Schema       json.RawMessage `json:"schema"`
	Examples     json.RawMessage `json:"examples"`
	Categories   []string        `json:"categories"`
	MultiLabel   bool            `json:"multiLabel"`
	MaxLength    int             `json:"maxLength"`
	Style        string          `json:"style"`
	Instructions string          `json:"instructions"`
	Type         string          `json:"type"`
	Constraints  []string        `json:"constraints"`
	Items        json.RawMessage `json:"items"`
	Criteria     []string        `json:"criteria"`
	Mode         string          `json:"mode"`
	Model        string          `json:"model"`
}

// shape is a JSON schema of an object with all of these properties.
func shape(properties, required string) json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`, properties, required)
}

func encoded(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(raw)
}

// inWords adds what a caller wants beside the question.
func inWords(goal, prefix string, list ...string) string {
	if text := strings.Join(list, "; "); strings.TrimSpace(text) != "" {
		return goal + "\n" + prefix + ": " + text
	}
	return goal
}

const modelProp = `,"model":{"type":"string","description":"The model to ask, as the configuration calls it."}`

// answers are these tools.
var answers = []answer{
	{
		name: "decide", about: "Let a model decide a question: yes or no, or one of several options.", tokens: 400,
		input:    `"question":{"type":"string"},"context":{"description":"What the decision is based on."},"options":{"type":"array","items":{"type":"string"},"minItems":2,"uniqueItems":true}`,
		required: `"question"`, output: `"decision":{"type":["boolean","string"]},"question":{"type":"string"},"reasoning":{"type":"string"}`, outputAs: `"decision","question"`,
		ask: func(in input) question {
			kind := `{"type":"boolean"}`
			if len(in.Options) > 0 {
				kind = `{"enum":` + encoded(in.Options) + `}`
			}
			return question{goal: "Decide: " + in.Question, data: dataOf(in.Context), schema: shape(`"decision":`+kind+`,"reasoning":{"type":"string"}`, `"decision"`)}
		},
		value: func(in input, r core.AgentResult) any {
			out := map[string]any{}
			_ = json.Unmarshal(r.Output, &out) // it is an object by its schema
			out["question"] = in.Question
			return out
		},
	},
	{
		name: "analyze", about: "Let a model analyze data; with format json (the default) as JSON, else as text.", tokens: 2048,
		input:    `"data":{"description":"What is analyzed: text or JSON."},"focus":{"type":"string"},"format":{"enum":["text","json","markdown"]}`,
		required: `"data"`,
		ask: func(in input) question {
			q := question{goal: inWords("Analyze the data.", "Focus on", in.Focus), data: in.Data}
			switch in.Format {
			case "text":
				q.goal += "\nAnswer in plain text."
			case "markdown":
				q.goal += "\nAnswer in Markdown."
			default:
				q.schema = json.RawMessage(`{"type":["object","array"]}`)
			}
			return q
		},
		value: func(_ input, r core.AgentResult) any {
			if len(r.Output) > 0 {
				return r.Output
			}
			return map[string]string{"analysis": r.Result}
		},
	},
	{
		name: "extract", about: "Let a model extract JSON by a JSON schema from a text.", tokens: 2048,
		input:    `"content":{"type":"string"},"schema":{"type":"object","description":"The JSON schema of what is extracted."},"examples":{"type":"array"}`,
		required: `"content","schema"`,
		ask: func(in input) question {
			q := question{goal: "Extract from the content what the schema describes, and invent nothing.", data: map[string]any{"content": in.Content}, schema: in.Schema}
			if len(in.Examples) > 0 {
				q.data = map[string]any{"content": in.Content, "examples": in.Examples}
			}
			return q
		},
	},
	{
		name: "classify", about: "Let a model put a text into one of several categories, or into several with multiLabel.", tokens: 500,
		input:    `"content":{"type":"string"},"categories":{"type":"array","items":{"type":"string"},"minItems":1,"uniqueItems":true},"multiLabel":{"type":"boolean"}`,
		required: `"content","categories"`,
		output:   `"categories":{"type":"array","items":{"type":"string"}},"confidence":{"type":"number"},"reasoning":{"type":"string"}`, outputAs: `"categories","confidence","reasoning"`,
		ask: func(in input) question {
			most := 1
			if in.MultiLabel {
				most = len(in.Categories)
			}
			return question{
				goal: "Classify the content.", data: map[string]any{"content": in.Content},
				schema: shape(fmt.Sprintf(`"categories":{"type":"array","items":{"enum":%s},"minItems":1,"maxItems":%d,"uniqueItems":true},"confidence":{"type":"number","minimum":0,"maximum":1},"reasoning":{"type":"string"}`, encoded(in.Categories), most),
					`"categories","confidence","reasoning"`),
			}
		},
	},
	{
		name: "summarize", about: "Let a model summarize a text in about maxLength words.", tokens: 2048,
		input:    `"content":{"type":"string"},"maxLength":{"type":"integer","minimum":1,"maximum":5000,"description":"Words; 100 if left out."},"style":{"enum":["bullet","paragraph","technical","simple"]},"focus":{"type":"string"}`,
		required: `"content"`, output: `"summary":{"type":"string"},"style":{"type":"string"},"maxLength":{"type":"integer"}`, outputAs: `"summary","style","maxLength"`,
		ask: func(in input) question {
			goal := fmt.Sprintf("Summarize the content in at most %d words, in this style: %s. Answer with the summary and nothing else.", in.words(), in.style())
			return question{goal: inWords(goal, "Focus on", in.Focus), data: map[string]any{"content": in.Content}, tokens: 256 + 2*in.words()}
		},
		value: func(in input, r core.AgentResult) any {
			return map[string]any{"summary": strings.TrimSpace(r.Result), "style": in.style(), "maxLength": in.words()}
		},
	},
	{
		name: "generate", about: "Let a model write a text, code, or JSON by instructions.", tokens: 4096,
		input:    `"instructions":{"type":"string"},"type":{"enum":["code","text","markdown","json","yaml"]},"context":{},"constraints":{"type":"array","items":{"type":"string"}}`,
		required: `"instructions"`,
		ask: func(in input) question {
			q := question{goal: inWords("Write "+in.kind()+" by these instructions, and nothing else: "+in.Instructions, "Constraints", in.Constraints...), data: dataOf(in.Context)}
			if in.Type == "json" {
				q.schema = json.RawMessage(`{}`)
			}
			return q
		},
		value: func(in input, r core.AgentResult) any {
			if len(r.Output) > 0 {
				return map[string]any{"content": r.Output, "type": in.kind()}
			}
			return map[string]any{"content": r.Result, "type": in.kind()}
		},
	},
	{
		name: "compare", about: "Let a model compare items: name the best (mode best), rank them, or list pros and cons.", tokens: 1500,
		input:    `"items":{"type":"array","minItems":2},"criteria":{"type":"array","items":{"type":"string"}},"mode":{"enum":["best","rank","pros-cons"]}`,
		required: `"items"`,
		ask: func(in input) question {
			q := question{data: map[string]any{"items": in.Items}}
			list := `{"type":"array","items":{"type":"string"}}`
			switch in.Mode {
			case "rank":
				q.goal = "Rank the items, the best first."
				q.schema = shape(`"ranking":{"type":"array","items":`+string(shape(`"item":{"type":"string"},"reasoning":{"type":"string"}`, `"item","reasoning"`))+`}`, `"ranking"`)
			case "pros-cons":
				q.goal = "List the pros and cons of each item."
				q.schema = shape(`"items":{"type":"array","items":`+string(shape(`"item":{"type":"string"},"pros":`+list+`,"cons":`+list, `"item","pros","cons"`))+`}`, `"items"`)
			default:
				q.goal = "Say which of the items is the best."
				q.schema = shape(`"best":{"type":"string"},"reasoning":{"type":"string"}`, `"best","reasoning"`)
			}
			q.goal = inWords(q.goal, "Criteria", in.Criteria...)
			return q
		},
	},
}

func dataOf(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

func (in input) words() int {
	if in.MaxLength <= 0 {
		return 100
	}
	return in.MaxLength
}

func (in input) style() string {
	if in.Style == "" {
		return "paragraph"
	}
	return in.Style
}

func (in input) kind() string {
	if in.Type == "" {
		return "text"
	}
	return in.Type
}
