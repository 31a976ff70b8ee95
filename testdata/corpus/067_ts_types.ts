// constructs: TypeScript types and interfaces
interface File { path: string; size: number }
type Sizes = Record<string, number>;
const sizes: Sizes = {};
for (const p of ["a.json", "bb.json"] as const) {
  const f = (await mcp.rec.read({ path: p })) as File;
  sizes[f.path] = f.size;
}
return sizes;
