package notify

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/casys-ai/pml/core"
)

// ntfy publishes to a topic of an ntfy server.
type ntfy struct {
	address
	topic, token string
}

// ntfyTopic parts the URL of a topic into its server and its name.
func ntfyTopic(text string) (root, topic string, err error) {
	u, err := url.Parse(text)
	if err == nil {
		topic = strings.Trim(u.Path, "/")
	}
	if err != nil || topic == "" || strings.Contains(topic, "/") || u.RawQuery != "" {
		return "", "", core.Errorf(core.CodeInvalidConfig, "needs the URL of a topic, e.g. https://ntfy.sh/my-secret-topic")
	}
	u.Path = "/"
	return u.String(), topic, nil
}

// Send implements Carrier.
func (c *ntfy) Send(ctx context.Context, n Note) error {
	h := http.Header{}
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	priority := 3
	if n.Risk == core.RiskHigh && n.Kind != KindDecided {
		priority = 4
	}
	message := map[string]any{"topic": c.topic, "title": n.Title, "message": n.Text, "priority": priority, "markdown": false}
	if n.Link != "" {
		message["click"] = n.Link
	}
	_, err := c.post(ctx, message, h)
	return err
}

// slack posts to an incoming webhook of Slack. The text is plain in its block; where it is
// shown without blocks, in banners, signs of markup and mentions are escaped.
type slack struct{ address }

var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Send implements Carrier.
func (c *slack) Send(ctx context.Context, n Note) error {
	blocks := []any{map[string]any{"type": "section", "text": map[string]any{"type": "plain_text", "emoji": false, "text": n.Text}}}
	if n.Link != "" { // of pml's own making, without a sign that the markup knows
		blocks = append(blocks, map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "verbatim": true, "text": "<" + slackEscape.Replace(n.Link) + "|Open it>"}})
	}
	_, err := c.post(ctx, map[string]any{"text": slackEscape.Replace(n.Title), "unfurl_links": false, "unfurl_media": false, "blocks": blocks}, nil)
	return err
}

// telegram sends by a bot of Telegram. The whole text but the link at its end is marked as
// preformatted: Telegram looks for no names, commands and links in such a one.
type telegram struct {
	address
	chat string
}

// Send implements Carrier.
func (c *telegram) Send(ctx context.Context, n Note) error {
	plain := strings.TrimSuffix(n.Text, openLine+n.Link)
	answer, err := c.post(ctx, map[string]any{
		"chat_id": c.chat, "text": n.Text, "disable_notification": n.Kind == KindDecided,
		"link_preview_options": map[string]any{"is_disabled": true},
		"entities":             []any{map[string]any{"type": "pre", "offset": 0, "length": len(utf16.Encode([]rune(plain)))}},
	}, nil)
	if err == nil {
		return nil
	}
	f := failureOf(err)
	var said struct {
		Description string `json:"description"`
		Parameters  struct {
			After int `json:"retry_after"`
		} `json:"parameters"`
	}
	if json.Unmarshal(answer, &said) == nil && said.Description != "" {
		f.reason = "answered: " + c.words([]byte(said.Description))
		f.after = max(f.after, time.Duration(min(max(said.Parameters.After, 0), 3600))*time.Second)
	}
	return f
}
