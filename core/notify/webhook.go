package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/casys-ai/pml/core"
)

// webhook posts the message as JSON, signed as libraries for "Standard Webhooks" verify it:
// HMAC-SHA256 over the id, the time and the body.
type webhook struct {
	address
	key   []byte
	clock core.Clock
}

// webhookKey is the key of a secret: after whsec_ it is base64.
func webhookKey(secret string) ([]byte, error) {
	key := []byte(secret)
	if text, ok := strings.CutPrefix(secret, "whsec_"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, core.Errorf(core.CodeInvalidConfig, "has a secret that begins with whsec_ and does not go on in base64")
		}
	}
	if len(key) < minSecret {
		return nil, core.Errorf(core.CodeInvalidConfig, "needs a secret of at least %d characters, with which messages are signed", minSecret)
	}
	return key, nil
}

// Send implements Carrier.
func (w *webhook) Send(ctx context.Context, n Note) error {
	body, err := json.Marshal(n)
	if err != nil {
		return core.Errorf(core.CodeInternal, "cannot encode a message: %w", err)
	}
	at := strconv.FormatInt(w.clock.Now().Unix(), 10) // of this try: receivers refuse old ones
	_, err = w.post(ctx, body, http.Header{
		"Webhook-Id": {n.ID}, "Webhook-Timestamp": {at}, "Webhook-Signature": {sign(w.key, n.ID, at, body)},
	})
	return err
}

func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
