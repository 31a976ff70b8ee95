// expect: sandbox_timeout
await mcp.a.b({ get x() { while (true) {} } })
