package env

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/casys-ai/pml/core"
	"github.com/casys-ai/pml/core/jsonc"
)

// Notify says how people are told of approvals that wait. It is of this machine only: a
// workspace cannot say what leaves the machine, and where to.
type Notify struct {
	Carriers map[string]NotifyCarrier
	Details  bool          // messages say what was asked, with arguments
	Page     string        // where a browser finds the pages of the server; empty: messages have no link
	After    time.Duration // an approval that is decided sooner is not worth a message
	Burst    time.Duration // at least between two messages of one kind
	Remind   time.Duration // before an approval expires; 0: never
	Decided  bool          // say what became of it
	Quiet    NotifyQuiet
}

// NotifyQuiet are the hours in which nothing is sent. From and To are minutes of the day;
// equal ones are no quiet hours.
type NotifyQuiet struct {
	From, To int
	Zone     *time.Location
}

// NotifyCarrier is a carrier as it is written: nothing is expanded.
type NotifyCarrier struct {
	Name     string   `json:"-"`
	Type     string   `json:"type,omitempty"`
	URL      string   `json:"url,omitempty"`
	Token    string   `json:"token,omitempty"`
	Secret   string   `json:"secret,omitempty"`
	Chat     string   `json:"chat,omitempty"`
	Command  []string `json:"command,omitempty"`
	Insecure bool     `json:"insecure,omitempty"`
}

// notifyTypes are the kinds of carrier: core/notify has them.
var notifyTypes = []string{"webhook", "ntfy", "slack", "telegram", "command", "desktop"}

type notifyPart struct {
	Carriers map[string]*NotifyCarrier `json:"carriers,omitempty"`
	Details  *bool                     `json:"details,omitempty"`
	Page     *string                   `json:"page,omitempty"`
	After    *duration                 `json:"after,omitempty"`
	Burst    *duration                 `json:"burst,omitempty"`
	Remind   *duration                 `json:"remind,omitempty"`
	Decided  *bool                     `json:"decided,omitempty"`
	Quiet    quietPart                 `json:"quiet,omitzero"`
}

type quietPart struct {
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
	Zone *string `json:"zone,omitempty"`
}

const (
	defaultAfter  = 3 * time.Second
	defaultBurst  = 30 * time.Second
	defaultRemind = time.Minute
)

// notify is the home's part with its defaults.
func (m *merger) notify(h notifyPart) Notify {
	n := Notify{
		Details: pick(m, "/approvals/notify/details", false, h.Details, nil),
		Page:    pick(m, "/approvals/notify/page", "", h.Page, nil),
		After:   m.duration("/approvals/notify/after", defaultAfter, h.After, nil),
		Burst:   m.duration("/approvals/notify/burst", defaultBurst, h.Burst, nil),
		Remind:  m.duration("/approvals/notify/remind", defaultRemind, h.Remind, nil),
		Decided: pick(m, "/approvals/notify/decided", true, h.Decided, nil),
	}
	for name, c := range h.Carriers {
		if n.Carriers == nil {
			n.Carriers = map[string]NotifyCarrier{}
		}
		n.Carriers[name] = *c
		at := pointer("/approvals/notify/carriers", name)
		m.from(at, m.home, at)
	}
	if q := h.Quiet; q.From != nil && q.To != nil {
		n.Quiet.From, _ = minuteOfDay(*q.From)
		n.Quiet.To, _ = minuteOfDay(*q.To)
		if q.Zone != nil {
			n.Quiet.Zone, _ = time.LoadLocation(*q.Zone) // it was tried when the file was read
		}
	}
	return n
}

// ResolvedNotifyCarrier is a carrier with everything expanded.
type ResolvedNotifyCarrier struct {
	NotifyCarrier
	// Missing are variables that are unset, empty or placeholders: it cannot be used.
	Missing []string
}

// ResolveNotify expands the carriers, sorted by name. Variables come from the environment,
// and from .env of the home, which is read again each time; a workspace's .env cannot say
// where messages go. Error: core.CodeInvalidConfig for a malformed .env of the home.
func (c *Config) ResolveNotify() ([]ResolvedNotifyCarrier, error) {
	v := c.homeVariables()
	var out []ResolvedNotifyCarrier
	for _, name := range slices.Sorted(maps.Keys(c.Approvals.Notify.Carriers)) {
		r := ResolvedNotifyCarrier{NotifyCarrier: c.Approvals.Notify.Carriers[name]}
		r.Command = slices.Clone(r.Command)
		for _, text := range r.texts() {
			x := v.expand(*text, true)
			*text, r.Missing = x.value, append(r.Missing, append(x.unset, x.fake...)...)
		}
		slices.Sort(r.Missing)
		r.Missing = slices.Compact(r.Missing)
		out = append(out, r)
	}
	return out, v.err()
}

// desktopNames are the variables without which nothing is shown on a desktop.
var desktopNames = []string{"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}

// NotifyVariables are the variables that carriers name, and those of the desktop.
func (c *Config) NotifyVariables() []string {
	names := slices.Clone(desktopNames)
	for _, n := range c.Approvals.Notify.Carriers {
		for _, text := range n.texts() {
			refs, err := parseRefs(*text)
			for _, r := range refs {
				if err == nil && r.variable {
					names = append(names, r.text)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// NotifyEnv is the environment of a program that shows or takes a message.
func NotifyEnv(e Environ) []string {
	declared := map[string]string{}
	for _, name := range desktopNames {
		if v, ok := e(name); ok {
			declared[name] = v
		}
	}
	return ChildEnv(declared, e)
}

// texts are what of a carrier is expanded.
func (n *NotifyCarrier) texts() []*string {
	all := []*string{&n.URL, &n.Token, &n.Secret, &n.Chat}
	for i := range n.Command {
		all = append(all, &n.Command[i])
	}
	return all
}

// homeVariables looks up what belongs to this machine and to no workspace.
func (c *Config) homeVariables() *variables {
	return &variables{environ: c.environ, path: c.Home.DotEnv()}
}

// notifySecrets notes the values of the keys of carriers, and what stands in .env of the
// home.
func (c *Config) notifySecrets(s *secrets) {
	v := c.homeVariables()
	for _, name := range slices.Sorted(maps.Keys(c.Approvals.Notify.Carriers)) {
		n := c.Approvals.Notify.Carriers[name]
		n.Command = slices.Clone(n.Command)
		for _, text := range n.texts() {
			x := v.expand(*text, true)
			for variable, value := range x.used {
				if text != &n.Chat {
					c.note(s, name, variable, value)
				}
			}
			if text == &n.Token || text == &n.Secret || text == &n.URL && n.keyInURL() && beyondOrigin(x.value) != "" {
				c.note(s, name, "notify_"+name, x.value)
			}
		}
	}
	v.load()
	for _, name := range slices.Sorted(maps.Keys(v.values)) {
		if value := v.values[name]; !slices.Contains(publicWords, value) || isKeyName(name) {
			c.note(s, "home.env", name, value)
		}
	}
}

func (p *notifyPart) schema() sch {
	carrier := schObject("", new(NotifyCarrier).fields())
	carrier["required"] = []string{"type"}
	s := schObject("How people who are away from the terminal are told of approvals that wait. Only in the home's config.json.", p.fields())
	s["properties"].(sch)["carriers"] = sch{"type": "object", "additionalProperties": carrier, "description": "What takes messages to a person, by name."}
	return s
}

func (p *notifyPart) fields() []field {
	return []field{
		{"carriers", sch{}, readCarriers(&p.Carriers)},
		{"details", sch{"type": "boolean", "description": "Messages say what was asked, with arguments, keys left out. Default false: how much waits, of which risk and run, until when."}, readBool(&p.Details)},
		{"page", schString("Where a browser finds the pages of pml serve, e.g. https://home.example.org:7465: messages have a link, which decides nothing."), readPage(&p.Page)},
		{"after", schDuration("An approval that is decided sooner is not worth a message. Default 3s."), readDuration(&p.After)},
		{"burst", schDuration("At least between two messages of one kind; what comes meanwhile is one message. Default 30s."), readDuration(&p.Burst)},
		{"remind", schDuration(`How long before it expires an approval is told of again. Default 1m; "0" never.`), readDuration(&p.Remind)},
		{"decided", sch{"type": "boolean", "description": "Say what became of approvals of which was told. Default true."}, readBool(&p.Decided)},
		{"quiet", schObject("The hours in which nothing is sent; after them one message tells of all that still waits.", p.Quiet.fields()), readQuiet(&p.Quiet)},
	}
}

// readPage reads the address of a server: with TLS, unless it is on this machine.
func readPage(to **string) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		s, ok := d.str(v, at)
		if !ok {
			return
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" ||
			u.Scheme != "https" && (u.Scheme != "http" || !onLoopback(u.Hostname())) {
			d.fault(v, at, "must be the address of a server, https://NAME or https://NAME:PORT; http:// on this machine only")
			return
		}
		s = u.Scheme + "://" + u.Host
		*to = &s
	}
}

// onLoopback reports whether a host is this machine by its very name.
func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// readNotify refuses one that a workspace would bring.
func readNotify(p *notifyPart, origin Origin) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		if origin == FromWorkspace {
			d.fault(v, at, "what leaves this machine, and where to, is not for a workspace to say: put it in config.json of pml's home")
			return
		}
		d.object(v, at, p.fields())
	}
}

func (p *quietPart) fields() []field {
	pattern := func(doc string) sch {
		return sch{"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "description": doc}
	}
	return []field{
		{"from", pattern("When they begin, e.g. 22:00."), readMinute(&p.From)},
		{"to", pattern("When they end, e.g. 07:00; the next day where that is earlier."), readMinute(&p.To)},
		{"zone", schString("Whose clock that is, e.g. Europe/Paris. Default: this machine's."), func(d *decoder, v jsonc.Value, at string) {
			s, ok := d.str(v, at)
			if !ok {
				return
			}
			if _, err := time.LoadLocation(s); err != nil || s == "" {
				d.fault(v, at, "%q is no time zone that this machine knows; write one such as Europe/Paris", core.Visible(s, 60, false))
				return
			}
			p.Zone = &s
		}},
	}
}

func readQuiet(p *quietPart) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		before := len(d.faults)
		d.object(v, at, p.fields())
		if len(d.faults) == before && (p.From == nil || p.To == nil) {
			d.fault(v, at, "needs from and to")
		}
	}
}

func readMinute(to **string) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		s, ok := d.str(v, at)
		if !ok {
			return
		}
		if _, ok := minuteOfDay(s); !ok {
			d.fault(v, at, "must be a time of the day such as 22:00, not %q", core.Visible(s, 40, false))
			return
		}
		*to = &s
	}
}

// minuteOfDay reads HH:MM.
func minuteOfDay(s string) (int, bool) {
	t, err := time.Parse("15:04", s)
	return t.Hour()*60 + t.Minute(), err == nil && len(s) == len("15:04")
}

// formatMinute is minuteOfDay the other way.
func formatMinute(m int) string { return fmt.Sprintf("%02d:%02d", m/60, m%60) }

// readCarriers reads the carriers by name.
func readCarriers(to *map[string]*NotifyCarrier) func(*decoder, jsonc.Value, string) {
	return func(d *decoder, v jsonc.Value, at string) {
		*to = map[string]*NotifyCarrier{}
		d.members(v, at, func(name string, key, member jsonc.Value, at string) {
			if name == "" || len(name) > 40 || !plainName(name) {
				d.fault(key, at, "%q cannot be the name of a carrier: %s", core.Visible(name, 60, false), namesAre)
			}
			n := &NotifyCarrier{Name: name}
			before := len(d.faults)
			d.object(member, at, n.fields())
			if len(d.faults) == before {
				d.checkCarrier(member, at, n)
			}
			(*to)[name] = n
		})
	}
}

// carrierKeys are what a carrier of each kind may say, in the order in which it is asked
// for; those with a ! it must say.
var carrierKeys = map[string][]string{
	"webhook":  {"!url", "!secret", "insecure"},
	"ntfy":     {"!url", "token", "insecure"},
	"slack":    {"!url", "insecure"},
	"telegram": {"!token", "!chat", "url", "insecure"},
	"command":  {"!command"},
	"desktop":  {},
}

// checkCarrier refuses what is missing of a carrier of its kind, and what does nothing.
func (d *decoder) checkCarrier(v jsonc.Value, at string, n *NotifyCarrier) {
	if n.Type == "" {
		d.fault(v, at, "needs a type: %s", strings.Join(notifyTypes, ", "))
		return
	}
	said := map[string]bool{
		"url": n.URL != "", "token": n.Token != "", "secret": n.Secret != "", "chat": n.Chat != "", "command": len(n.Command) > 0, "insecure": n.Insecure,
	}
	for _, key := range carrierKeys[n.Type] {
		name, must := strings.CutPrefix(key, "!")
		if must && !said[name] {
			d.fault(v, at, "a carrier of type %s needs %q", n.Type, name)
		}
		delete(said, name)
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if said[name] {
			d.fault(v, at+"/"+name, "does nothing in a carrier of type %s", n.Type)
		}
	}
}

func (n *NotifyCarrier) fields() []field {
	text := func(to *string) func(*decoder, jsonc.Value, string) {
		return func(d *decoder, v jsonc.Value, at string) {
			if s, ok := d.str(v, at); ok {
				d.checkRefs(v, at, s)
				*to = s
			}
		}
	}
	return []field{
		{"type", schEnum("What it is.", notifyTypes...), func(d *decoder, v jsonc.Value, at string) {
			var t *string
			if readEnum(&t, notifyTypes...)(d, v, at); t != nil {
				n.Type = *t
			}
		}},
		{"url", schString("Where messages go: of webhook, slack, and ntfy with its topic. ${VAR} is expanded here and in all that follows, from the environment or from .env of pml's home."), text(&n.URL)},
		{"token", schString("Of ntfy (an access token, where the topic needs one) and telegram (of the bot), as ${VAR}."), text(&n.Token)},
		{"secret", schString("With which a webhook's messages are signed, at least 16 characters, as ${VAR}."), text(&n.Secret)},
		{"chat", schString("The id of the chat to which a telegram bot writes."), text(&n.Chat)},
		{"command", schStrings("A program and its arguments. It is started without a shell and gets the message as JSON on stdin."), func(d *decoder, v jsonc.Value, at string) { n.Command = d.expandable(v, at) }},
		{"insecure", sch{"type": "boolean", "description": "Allow http:// to other machines: everybody on the way can read the messages and their keys."}, func(d *decoder, v jsonc.Value, at string) {
			var b *bool
			if readBool(&b)(d, v, at); b != nil {
				n.Insecure = *b
			}
		}},
	}
}

// keyInURL reports whether whoever knows the URL can send to the carrier, or read what is
// sent: the topic of ntfy is its password, and the path of most webhooks is theirs.
func (n *NotifyCarrier) keyInURL() bool {
	return slices.Contains([]string{"webhook", "ntfy", "slack"}, n.Type)
}

var urlOrigin = regexp.MustCompile(`^https?://[^/?#@$]+(/|$)`)

// beyondOrigin is what a URL says after the scheme and the host: all of it where these
// are not written out.
func beyondOrigin(text string) string { return text[len(urlOrigin.FindString(text)):] }

// showNotify leaves out what is written into the file of keys.
func (c *Config) showNotify() map[string]any {
	n := c.Approvals.Notify
	carriers := map[string]NotifyCarrier{}
	for name, each := range n.Carriers {
		each.Token, each.Secret = mask(each.Token), mask(each.Secret)
		if rest := beyondOrigin(each.URL); each.keyInURL() {
			each.URL = strings.TrimSuffix(each.URL, rest) + mask(rest)
		}
		carriers[name] = each
	}
	out := map[string]any{
		"carriers": carriers, "details": n.Details, "after": formatDuration(n.After), "burst": formatDuration(n.Burst),
		"remind": formatDuration(n.Remind), "decided": n.Decided,
	}
	if n.Page != "" {
		out["page"] = n.Page
	}
	if n.Quiet.From != n.Quiet.To {
		quiet := map[string]any{"from": formatMinute(n.Quiet.From), "to": formatMinute(n.Quiet.To)}
		if n.Quiet.Zone != nil {
			quiet["zone"] = n.Quiet.Zone.String()
		}
		out["quiet"] = quiet
	}
	return out
}
