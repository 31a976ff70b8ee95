package program

import "github.com/casys-ai/pml/core"

// YAMLToJSON converts a document and answers where a pointer is, for tests.
func YAMLToJSON(data []byte) ([]byte, func(string) *core.Position, error) {
	doc, err := parseYAML(data)
	return doc.json, doc.places, err
}
