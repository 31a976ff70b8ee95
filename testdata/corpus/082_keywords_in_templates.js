// constructs: keywords in templates and property names
const o = { function: 1, class: 2, export: 3, import: 4, default: 5, await: 6 };
const r = await mcp.rec.echo({ value: `export ${o.class} function ${o.import} \`await\` \${no}` });
return [r.value, o.function + o.export];
