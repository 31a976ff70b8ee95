// A loop whose calls depend on one another: each page says where the next one begins.
//
//	pml execute page-by-page.ts

let offset: number | undefined = 0;
let pages = 0;
let text = "";
while (offset !== undefined) {
  const page: any = await mcp.workspace.read_file({ path: "notes/bees.md", offset, limit: 32 });
  text += page.content;
  pages++;
  offset = page.truncated ? page.next_offset : undefined;
}
return { pages, characters: text.length };
