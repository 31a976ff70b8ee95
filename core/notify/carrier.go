package notify

import (
	"slices"
	"strings"

	"github.com/casys-ai/pml/core"
)

// The kinds of carrier.
const (
	Webhook  = "webhook"
	Ntfy     = "ntfy"
	Slack    = "slack"
	Telegram = "telegram"
	Command  = "command"
	Desktop  = "desktop"
)

// Carriers lists the kinds of carrier.
var Carriers = []string{Webhook, Ntfy, Slack, Telegram, Command, Desktop}

// Spec describes a carrier, with everything filled in.
type Spec struct {
	Name, Type string
	URL        string   // of webhook, ntfy (with the topic), slack; of telegram another one than its own
	Token      string   // of ntfy and telegram
	Secret     string   // of webhook
	Chat       string   // of telegram
	Command    []string // of command
	Insecure   bool     // http:// beyond this machine
	Env        []string // of the programs that command and desktop start
	Dir        string   // where they start
	LookPath   func(string) (string, error)
	Clock      core.Clock
}

// minSecret is the least length of what signs.
const minSecret = 16

// New makes a carrier. Errors are core.CodeInvalidConfig; they repeat no key and no URL.
func New(s Spec) (Carrier, error) {
	bad := func(format string, args ...any) (Carrier, error) {
		return nil, core.Errorf(core.CodeInvalidConfig, format, args...)
	}
	if s.Type == Telegram && s.URL == "" {
		s.URL = "https://api.telegram.org"
	}
	switch s.Type {
	case Webhook, Ntfy, Slack, Telegram:
		if err := checkURL(s.URL, s.Insecure); err != nil {
			return nil, err
		}
	}
	at := address{base: base{s.Name}, url: s.URL, client: clientFor(s.URL, s.Insecure)}
	switch s.Type {
	case Webhook:
		key, err := webhookKey(s.Secret)
		if err != nil {
			return nil, err
		}
		return &webhook{address: at, key: key, clock: s.Clock}, nil
	case Ntfy:
		root, topic, err := ntfyTopic(s.URL)
		if err != nil {
			return nil, err
		}
		at.url = root
		return &ntfy{address: at, topic: topic, token: s.Token}, nil
	case Slack:
		return &slack{at}, nil
	case Telegram:
		if s.Token == "" || strings.ContainsAny(s.Token, "/?#% ") || s.Chat == "" {
			return bad("needs the token of the bot, as Telegram gave it out, and the chat")
		}
		at.url = strings.TrimSuffix(s.URL, "/") + "/bot" + s.Token + "/sendMessage"
		return &telegram{address: at, chat: s.Chat}, nil
	case Command:
		if len(s.Command) == 0 || s.Command[0] == "" {
			return bad("needs a command: the program and its arguments")
		}
		return &program{base: base{s.Name}, argv: s.Command, env: s.Env, dir: s.Dir}, nil
	case Desktop:
		return newDesktop(s)
	}
	return bad("%q is no kind of carrier: use %s", core.Visible(s.Type, 40, false), strings.Join(slices.Clone(Carriers), ", "))
}

type base struct{ name string }

// Name implements Carrier.
func (b base) Name() string { return b.name }
