// constructs: TextEncoder, TextDecoder, btoa, atob
const bytes = new TextEncoder().encode("Grüße €😀");
const r = await mcp.rec.echo({ value: [...bytes] });
return [new TextDecoder().decode(new Uint8Array(r.value)), btoa("abc"), atob("YWJj")];
