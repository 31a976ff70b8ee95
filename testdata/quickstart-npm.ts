// With an MCP server from npm. In a folder with this .pml.json:
//
//	{"mcpServers":{"filesystem":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","."]}}}
//
// The first run asks whether the package may be installed, and says which version, how large, and with which
// dependencies. Later runs start it with node directly and ask nothing about it.

const listing: any = await mcp.filesystem.list_directory({ path: "." });
const text: string = typeof listing === "string" ? listing : (listing.content ?? JSON.stringify(listing));
const entries = text.split("\n").filter((line) => line.startsWith("["));

return {
  folders: entries.filter((e) => e.startsWith("[DIR]")).map((e) => e.slice(6)),
  files: entries.filter((e) => e.startsWith("[FILE]")).map((e) => e.slice(7)),
};
