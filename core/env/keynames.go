package env

import (
	"slices"
	"strings"
)

// Names of variables that hold a key, or what goes with one: by how they end,
// and by their whole name. They are what .env is for.
var (
	keyEndings = []string{
		"KEY", "KEYS", "KEY_ID", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PAT", "PIN", "AUTH",
		"AUTHORIZATION", "CREDENTIAL", "CREDENTIALS", "BEARER", "JWT", "COOKIE", "SALT", "DSN", "SIGNATURE", "USER", "USERNAME", "LOGIN", "EMAIL", "ID", "WEBHOOK", "WEBHOOK_URL", "CONNECTION_STRING",
	}
	// Addresses that carry a password and lead to a database, by how they begin;
	// any other address may send a key to somebody else.
	keyURLs = []string{
		"DATABASE", "DB", "POSTGRES", "POSTGRESQL", "PG", "MYSQL", "MARIADB", "MSSQL", "SQLSERVER", "ORACLE", "SQLITE", "REDIS", "VALKEY", "MONGO", "MONGODB",
		"CLICKHOUSE", "CASSANDRA", "ELASTICSEARCH", "OPENSEARCH", "NEO4J", "SNOWFLAKE", "COCKROACH", "SUPABASE", "NEON", "AMQP", "RABBITMQ", "NATS", "KAFKA",
	}
)

// isKeyName reports whether a variable's name says that it holds a key: one that
// .env may fill without a question. What decides what runs, or where keys go,
// never does, whatever its name ends with.
func isKeyName(name string) bool {
	name = strings.ToUpper(name)
	if isLoader(name) {
		return false
	}
	ends := func(ending string) bool { return name == ending || strings.HasSuffix(name, "_"+ending) }
	if slices.ContainsFunc(keyEndings, ends) || strings.HasSuffix(name, "APIKEY") || strings.HasSuffix(name, "PASSWORD") {
		return true
	}
	return slices.ContainsFunc(keyURLs, func(service string) bool {
		return ends(service+"_URL") || ends(service+"_URI")
	})
}

// mayHoldKey reports whether the name of a variable that decides what runs
// allows for a key in it all the same, as in DOCKER_AUTH_CONFIG.
func mayHoldKey(name string) bool {
	name = strings.ToUpper(name)
	holds := func(word string) bool { return strings.Contains(name, word) }
	return slices.ContainsFunc([]string{"TOKEN", "PASS", "SECRET", "KEY", "AUTH", "CREDENTIALS", "USERNAME"}, holds)
}
