// expect: result_too_large
await mcp.a.b({ x: "y".repeat(3e6) })
