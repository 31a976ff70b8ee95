// constructs: the words function, class, export, import inside strings and comments
// function fake() { class X {} } export default import "y"
/* export const a = await import("fs"); */
const s = "function f() { return class { } } export import x from 'y'";
const r = await mcp.rec.echo({ value: s + ' // not a comment /* nor this */' });
return r.value.includes("export import");
