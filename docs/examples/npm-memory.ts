// A server that keeps something: what changes its graph asks, what reads it does not.
//
//	pml execute npm-memory.ts
//	pml continue @latest --approve          until it is done
//
// asks: dependency, tool_permission, integrity

await mcp.memory.create_entities({
  entities: [{ name: "second hive", entityType: "hive", observations: ["weak in autumn"] }],
});
return await mcp.memory.search_nodes({ query: "hive" });
