// constructs: declare, type-only code between statements, this parameter
declare const nothing: string;
type T1<K extends string> = { [P in K]?: P };
function who(this: { name: string }, n: number): string { return this.name + n; }
const r = await mcp.rec.echo({ value: who.call({ name: "me" }, 1) });
const t: T1<"a" | "b"> = { a: "a" };
return [r.value, t];
