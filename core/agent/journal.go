package agent

import (
	"encoding/json"

	"github.com/casys-ai/pml/core/model"
)

// kept is an answer in a journal. The provider's blocks are a string there: an encoder
// of JSON, and a database, may write a value in other bytes, and the blocks must go back
// to the model as they came.
type kept struct {
	model.Answer
	Blocks string `json:"blocks"`
}

// Encode returns an answer as a journal keeps it.
func Encode(a model.Answer) (json.RawMessage, error) {
	return json.Marshal(kept{Answer: a, Blocks: string(a.Blocks)})
}

// Decode reads what Encode has written.
func Decode(raw json.RawMessage) (model.Answer, error) {
	var k kept
	err := json.Unmarshal(raw, &k)
	k.Answer.Blocks = json.RawMessage(k.Blocks)
	return k.Answer, err
}
