// expect: sandbox_timeout
const p = new Proxy({}, { ownKeys() { while (true) {} } }); await mcp.a.b(p)
