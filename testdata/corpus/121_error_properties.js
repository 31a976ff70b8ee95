// constructs: properties of tool errors
const e = await mcp["my-rec"].fail({ message: "m" }).catch((x) => x);
return { code: e.code, same: e.code === "tool_failed", tool: e.tool, msg: e.message, name: e.name, err: e instanceof Error, str: String(e) };
