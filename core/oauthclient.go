package core

// OAuthClient is the registration of pml at a server's authorization server
// that a person has made by hand, for servers that let no program register
// itself.
type OAuthClient struct {
	// ClientID is public and taken as it is written.
	ClientID string `json:"client_id"`
	// ClientSecret is a key: ${VAR} is expanded, and a missing one is asked for.
	ClientSecret string `json:"client_secret,omitempty"`
	// Scopes are asked for instead of those that the server's metadata lists.
	Scopes []string `json:"scopes,omitempty"`
	// RedirectPort is the port of the callback that was registered,
	// http://127.0.0.1:PORT/callback; 0: any free one.
	RedirectPort int `json:"redirect_port,omitempty"`
}
