// constructs: destructured tools and servers
const { echo, read: get } = mcp.rec;
const { ["my-rec"]: second } = mcp;
return [(await echo({ value: "d" })).value, await get({ path: "g" }), (await second.echo({ value: "s" })).value];
