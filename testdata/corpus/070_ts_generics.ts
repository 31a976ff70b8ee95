// constructs: generics, constraints, defaults
async function first<T, U extends { value: T } = { value: T }>(v: T): Promise<T> {
  const r: U = await mcp.rec.echo({ value: v });
  return r.value;
}
const id = <T,>(x: T): T => x;
return [await first<number>(1), await first("s"), id<boolean>(true)];
