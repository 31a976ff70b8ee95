// expect: ok script_error
Error.prepareStackTrace = () => ({ toString() { while (true) {} } }); Error.stackTraceLimit = 1e9; await mcp.a.b(); return 1
