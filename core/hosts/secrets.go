package hosts

import (
	"math"
	"net/mail"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// names gives out the variables that stand for secrets: one for each value
// among all files that are read together.
type names struct{ value map[string]string }

func newNames() *names { return &names{map[string]string{}} }

// take returns the first of the wanted names that is free or stands for this
// value already, or else the last one with a number.
func (n *names) take(value string, wanted ...string) string {
	free := func(name string) bool {
		had, taken := n.value[name]
		if taken && had != value {
			return false
		}
		n.value[name] = value
		return true
	}
	for _, name := range wanted {
		if free(name) {
			return name
		}
	}
	last := wanted[len(wanted)-1]
	for i := 2; ; i++ {
		if name := last + "_" + strconv.Itoa(i); free(name) {
			return name
		}
	}
}

// vault moves the secrets of one entry out of it.
type vault struct {
	server  string // in upper case, as part of names
	names   *names
	secrets map[string]string
}

// keep remembers a secret and returns the text that stands for it.
func (v *vault) keep(value string, wanted ...string) string {
	name := v.names.take(value, wanted...)
	v.secrets[name] = value
	return "${" + name + "}"
}

// variable returns the value of an environment variable without its secret.
func (v *vault) variable(name, value string) string {
	own := []string{v.server + "_" + upperSnake(name)}
	if variable.MatchString(name) {
		own = append([]string{name}, own...)
	}
	switch {
	case strings.Contains(value, "${"):
		return value
	case secretName(name) && !harmless(name, value), random(value), credentialURL(value):
		return v.keep(value, own...)
	}
	return v.address(value)
}

// header returns the value of a header without its secret; the scheme of an
// authorization stays.
func (v *vault) header(name, value string) string {
	if strings.Contains(value, "${") || !secretName(name) && !strings.EqualFold(name, "Cookie") && !random(value) {
		return value
	}
	scheme, rest, ok := strings.Cut(value, " ")
	if rest = strings.TrimSpace(rest); ok && rest != "" && word.MatchString(scheme) {
		return scheme + " " + v.keep(rest, v.server+"_"+upperSnake(name))
	}
	if value == "" {
		return value
	}
	return v.keep(value, v.server+"_"+upperSnake(name))
}

var (
	word       = regexp.MustCompile(`^[A-Za-z]+$`)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	headerArg  = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):(\s*)(.+)$`)
)

// args returns arguments without their secrets: --api-key VALUE,
// --token=VALUE, NAME=VALUE as docker takes it, and headers and addresses.
func (v *vault) args(args []string) []string {
	if args == nil {
		return nil
	}
	out := make([]string, len(args))
	flag := "" // the one whose value comes next
	for i, a := range args {
		before := flag
		flag = ""
		switch name, value, given := strings.Cut(a, "="); {
		case strings.Contains(a, "${"):
			out[i] = a
		case strings.HasPrefix(a, "-") && given:
			out[i] = name + "=" + v.argument(name, value, secretName(name))
		case strings.HasPrefix(a, "-"):
			out[i], flag = a, a
		case assignment.MatchString(a):
			out[i] = name + "=" + v.variable(name, value)
		case isHeader(before, a):
			m := headerArg.FindStringSubmatch(a)
			out[i] = m[1] + ":" + m[2] + v.header(m[1], m[3])
		default:
			out[i] = v.argument(before, a, wantsSecret(before))
		}
	}
	return out
}

// isHeader reports whether an argument is a header: "postgres:16" is none.
func isHeader(flag, arg string) bool {
	m := headerArg.FindStringSubmatch(arg)
	if m == nil {
		return false
	}
	name := strings.ToLower(m[1])
	return flag == "-H" || strings.HasPrefix(flag, "--header") || name == "authorization" || strings.HasPrefix(name, "x-")
}

// wantsSecret reports whether the argument behind a flag is secret. What only
// sounds like one may well be a switch before a subcommand.
func wantsSecret(flag string) bool {
	n := squeeze(flag)
	if !strings.HasSuffix(n, "PASS") {
		n = strings.TrimSuffix(n, "S")
	}
	for _, mark := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "CREDENTIAL"} {
		if strings.HasSuffix(n, mark) && !strings.HasPrefix(n, "NO") {
			return secretName(flag)
		}
	}
	return false
}

// argument returns the value of a flag, or of none, without its secret.
// Positional arguments are the names of packages and files: those are secret
// only where nothing else looks like them.
func (v *vault) argument(flag, value string, secret bool) string {
	name := upperSnake(strings.TrimLeft(flag, "-"))
	switch {
	case strings.Contains(value, "${"):
		return value
	case secret && !harmless(flag, value):
		return v.keep(value, v.server+"_"+name)
	case token.MatchString(value):
		return v.keep(value, v.server+"_TOKEN")
	case credentialURL(value):
		return v.keep(value, v.server+"_URL")
	}
	return v.address(value)
}

// address returns a URL without the secrets of its query; any other text as it
// is.
func (v *vault) address(text string) string {
	base, query, ok := strings.Cut(text, "?")
	if u, err := url.Parse(text); !ok || err != nil || u.Host == "" || strings.Contains(text, "${") {
		return text
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	parts := strings.Split(query, "&")
	for i, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		if value != "" && (secretName(name) && !harmless(name, value) || random(value)) {
			parts[i] = name + "=" + v.keep(value, v.server+"_"+upperSnake(name))
		}
	}
	text = base + "?" + strings.Join(parts, "&")
	if hasFragment {
		text += "#" + fragment
	}
	return text
}

// innocent are words that hold one of the marks of a secret and are none.
var innocent = strings.NewReplacer("AUTHORIZ", "AUTHORIZ", "AUTHOR", "", "KEYBOARD", "", "KEYWORD", "", "MONKEY", "", "BYPASS", "", "COMPASS", "", "PASSIVE", "", "TOKENIZER", "", "MAXTOKENS", "")

// secretName reports whether a name says that its value is secret.
func secretName(name string) bool {
	n := innocent.Replace(squeeze(name))
	for _, mark := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "AUTH", "CREDENTIAL"} {
		if strings.Contains(n, mark) {
			return true
		}
	}
	return false
}

// squeeze leaves the letters and digits of a name, in upper case.
func squeeze(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(name))
}

// settings are last words of names that speak about a secret instead of
// holding it.
var settings = []string{"TYPE", "MODE", "METHOD", "HEADER", "PROVIDER", "LIMIT", "TTL", "TIMEOUT", "COUNT", "HOST", "PORT", "FILE", "PATH", "DIR", "URL", "URI", "ENDPOINT", "ENABLED", "DISABLED"}

// harmless reports whether the value of a name that sounds secret is none: a
// switch, a number, a place.
func harmless(name, value string) bool {
	v := strings.TrimSpace(value)
	if _, err := strconv.ParseFloat(v, 64); err == nil {
		return len(v) < 8 && !strings.Contains(squeeze(name), "PASS")
	}
	switch strings.ToLower(v) {
	case "", "true", "false", "yes", "no", "on", "off", "none", "null":
		return true
	}
	if isPath(v) || isEmail(v) || isURL(v) && !credentialURL(v) {
		return true
	}
	for _, s := range settings {
		if strings.HasSuffix(squeeze(name), s) && !random(v) && !credentialURL(v) {
			return true
		}
	}
	return false
}

func isURL(v string) bool {
	u, err := url.Parse(v)
	return err == nil && u.Scheme != "" && u.Host != ""
}

// credentialURL reports whether a URL holds a password.
func credentialURL(v string) bool {
	u, err := url.Parse(v)
	if err != nil || u.Host == "" || u.User == nil {
		return false
	}
	_, has := u.User.Password()
	return has
}

func isEmail(v string) bool {
	a, err := mail.ParseAddress(v)
	return err == nil && a.Address == v
}

var pathStart = regexp.MustCompile(`^(/|\.{1,2}[/\\]|~|[A-Za-z]:[/\\]|\\\\)`)

// isPath tells places of files. Base64 may begin with a slash, but seldom has
// no other sign of a key.
func isPath(v string) bool { return pathStart.MatchString(v) && !random(v) }

// token matches keys by the beginnings that their issuers gave them.
var token = regexp.MustCompile(`^(sk-|sk_|pk_|rk_|ghp_|gho_|ghu_|ghs_|github_pat_|glpat-|xox[abprs]-|xapp-|AKIA|ASIA|AIza|hf_|npm_|ntn_|secret_|lin_api_|tvly-|fc-|pplx-|gsk_|shpat_|dop_v1_|eyJ[A-Za-z0-9_-]+\.)[A-Za-z0-9_.-]{8,}$`)

// run finds stretches that could be random.
var run = regexp.MustCompile(`[A-Za-z0-9+=]{20,}`)

// minEntropy is in bits a character: 20 random hexadecimal digits have about
// 3.3, words with a number fewer.
const minEntropy = 3.0

// random reports whether a value looks as if no person had made it up.
func random(v string) bool {
	if token.MatchString(v) {
		return true
	}
	if strings.ContainsAny(v, " \t\n") || isURL(v) {
		return false
	}
	for _, s := range run.FindAllString(v, -1) {
		if strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, isLetter) && entropy(s) >= minEntropy && !serial(s) {
			return true
		}
	}
	return false
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

var onceDigits = regexp.MustCompile(`^[A-Za-z]+[0-9]+$`)

// serial reports a word with a number behind it.
func serial(s string) bool { return onceDigits.MatchString(s) }

// entropy is that of the characters of a text, in bits each.
func entropy(s string) float64 {
	count := map[rune]float64{}
	for _, r := range s {
		count[r]++
	}
	bits, n := 0.0, float64(len(s))
	for _, c := range count {
		bits -= c / n * math.Log2(c/n)
	}
	return bits
}
