// constructs: URL and URLSearchParams
const u = new URL("../b?x=1&y=a%20b#h", "https://example.com:8443/a/c/d");
u.searchParams.set("z", (await mcp.rec.echo({ value: "1&2" })).value);
return [u.href, u.host, u.pathname, [...u.searchParams.keys()], u.hash];
