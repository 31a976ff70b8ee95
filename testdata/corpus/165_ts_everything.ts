// constructs: enum, generic class, satisfies, for await, Promise.all, try/catch combined
// order: partial
enum Kind { Text = "txt", Json = "json" }
interface Item<K extends Kind = Kind> { kind: K; name: string }
class Loader<T extends Item> {
  #seen = new Map<string, unknown>();
  constructor(private readonly items: readonly T[]) {}
  async *[Symbol.asyncIterator](): AsyncGenerator<[string, unknown]> {
    const rs = await Promise.all(this.items.map((i) => mcp.rec.read({ path: `${i.name}.${i.kind}` })));
    for (const [n, r] of rs.entries()) { this.#seen.set(this.items[n]!.name, r); yield [this.items[n]!.name, r]; }
  }
  get count(): number { return this.#seen.size; }
}
const l = new Loader([{ kind: Kind.Text, name: "a" }, { kind: Kind.Json, name: "b" }] satisfies Item[]);
const out: Record<string, unknown> = {};
for await (const [k, v] of l) out[k] = v;
try { await mcp.rec.fail({ message: "last" as string }); } catch (e) { out.err = (e as Error).message; }
return { ...out, count: l.count };
