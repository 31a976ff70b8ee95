// constructs: overloads, optional and rest parameters
function get(v: string): Promise<string>;
function get(v: number, w?: number): Promise<string>;
async function get(v: string | number, w?: number, ...rest: unknown[]): Promise<string> {
  return String((await mcp.rec.echo({ value: `${v}/${w ?? "-"}` })).value);
}
return [await get("a"), await get(1), await get(1, 2)];
