// A script with parameters: --input is JSON, which the script sees as input.
//
//	pml execute with-input.ts --input '{"word": "hive"}'

const { word } = input as { word: string };
const { matches } = await mcp.workspace.search({ query: word, glob: "notes/*.md", ignore_case: true });
return { word, files: [...new Set(matches.map((m: { path: string }) => m.path))] };
