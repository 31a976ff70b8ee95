// expect: ok script_error
Date.now = null; globalThis.Date = 5; await mcp.a.b(); return 1
