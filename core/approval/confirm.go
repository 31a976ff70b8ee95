package approval

import (
	"encoding/json"
	"strings"

	"github.com/casys-ai/pml/core"
)

// confirmDigits is how many characters confirm an approval of high risk.
const confirmDigits = 4

// High reports whether a yes to an approval must be confirmed by typing. A risk that
// is not known counts as high, and so do install scripts that may run; that of a pause
// between layers may not be said.
func High(a core.Approval, scripts bool) bool {
	switch a.Risk {
	case core.RiskLow, core.RiskMedium:
		return scripts
	case "":
		return scripts || a.Type != core.ApproveLayer
	case core.RiskHigh:
	}
	return true
}

// Confirmation returns the four characters that a person types before an approval of
// high risk is approved, the same in the terminal, on the command line and in the
// dialog of a host: the first of the new hash, or of the run's id where there is none.
// It is empty where none are needed.
func Confirmation(a core.Approval, scripts bool) string {
	if !High(a, scripts) {
		return ""
	}
	var c struct {
		NewHash string `json:"new_hash"`
	}
	_ = json.Unmarshal(a.Context, &c) // what is no object has no hash
	_, hash, algorithm := strings.Cut(c.NewHash, ":")
	if !algorithm {
		hash = c.NewHash
	}
	for _, text := range []string{hash, string(a.RunID), string(a.ID)} {
		if text = strings.ToLower(text); typeable(text) {
			return text[:confirmDigits]
		}
	}
	return "high" // never nothing: it would be approved by one key
}

// typeable reports whether every keyboard has the first characters of a text.
func typeable(text string) bool {
	return len(text) >= confirmDigits && strings.IndexFunc(text[:confirmDigits], func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z')
	}) < 0
}
