// constructs: as, satisfies, non-null
const opts = { path: "a.json" } satisfies { path: string };
const r = (await mcp.rec.read(opts)) as unknown as { size?: number };
return r!.size! + 1;
