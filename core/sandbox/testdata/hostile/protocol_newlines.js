// expect: ok
await mcp["a\n{}"]["b\r\n\u0000"]({ "\n": "\n{\"kind\":\"ready\"}\n" }); return "\n\n"
