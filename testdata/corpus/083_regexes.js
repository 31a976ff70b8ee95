// constructs: regular expressions with braces, quotes and keywords
const r = await mcp.rec.echo({ value: "export function {a} // 'x' 2026-11-21" });
const m = r.value.match(/export\s+function\s*\{(?<name>\w)\}\s*\/\/\s*'x'/);
const d = r.value.replace(/(\d{4})-(\d\d)-(\d\d)/u, "$3.$2.$1");
return [m.groups.name, d, /[/"'`]/.test("`"), "aXbX".replaceAll(/X/g, "-")];
