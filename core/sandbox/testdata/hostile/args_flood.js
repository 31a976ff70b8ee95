// expect: result_too_large
while (true) mcp.a.b({ x: "y".repeat(9e5) })
