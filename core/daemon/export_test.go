package daemon

// Newer is newer.
var Newer = newer

// ParseRecord is parseRecord.
var ParseRecord = parseRecord

// Heard is heard.
var Heard = heard

// MaxSocket is maxSocket.
const MaxSocket = maxSocket
