// An error of a tool is an exception: catch it and go on another way.
//
//	pml execute fall-back.ts

async function firstThatExists(...paths: string[]) {
  for (const path of paths) {
    try {
      return await mcp.workspace.read_file({ path });
    } catch (e) {
      console.log(`${path}: ${(e as Error).message}`);
    }
  }
  throw new Error(`none of ${paths.join(", ")} can be read`);
}

const found = await firstThatExists("notes/pears.md", "notes/apples.md");
return { used: found.path, title: found.content.split("\n")[0] };
