package pmltest

import (
	"strings"
	"testing"

	"github.com/casys-ai/pml/core/skiptest"
)

// smoke are the tests of the whole program that -short runs: a few of each subject, and cheap ones.
var smoke = map[string]bool{
	"TestContinue_SameAndOpposite": true, "TestScenario33_Pin": true, "TestTrust_CloneAndHomeEntries": true, // approvals
	"TestAbort_OfWhatWaits": true, "TestRetry": true, "TestSandboxKilled": true, // crash
	"TestCode_Means": true, "TestDAG_TaskFails": true, "TestHIL_LayerDenied": true, // execute
	"TestDetach_Pipe": true, "TestNamed_TCP": true, "TestServer_ByHand": true, // server
	"TestOAuth_Terminal": true, "TestScenario22_ExitsAtStart": true, // servers
	"TestGateway_HTTP": true, "TestStdio_Elicitation": true, "TestStdio_OnlyMessages": true, // stdio
	"TestTUI_Decides": true, "TestTerminal_Prompt": true, // terminal
}

// skipShort leaves a test of the whole program out of -short, unless it is one of the few that stay.
func skipShort(t testing.TB) {
	t.Helper()
	if name, _, _ := strings.Cut(t.Name(), "/"); !smoke[name] {
		skiptest.Short(t, "starts pml in processes of its own, again and again")
	}
}
