package sandbox_test

import (
	"testing"
)

// TestScript_Result runs scripts that answer with one value; calls echo their arguments.
func TestScript_Result(t *testing.T) {
	t.Parallel()
	p := newPool(t, patientLimits)
	for name, c := range map[string]struct{ source, want string }{
		"Return":             {`return 1 + 1`, `2`},
		"Nothing":            {`const x = 1`, `null`},
		"Await":              {`return await mcp.a.b({x: 1})`, `{"x":1}`},
		"Hyphen":             {`return await mcp["my-server"]["do.it"]({y: [1,2]})`, `{"y":[1,2]}`},
		"NoArguments":        {`return await mcp.a.b()`, `{}`},
		"All":                {`return await Promise.all([1,2,3].map(n => mcp.a.b({n})))`, `[{"n":1},{"n":2},{"n":3}]`},
		"Arrays":             {`return [await mcp.a.b({x:1}), await mcp.a.b({x:2})]`, `[{"x":1},{"x":2}]`},
		"ForOf":              {`let s = 0; for (const n of [1,2,3]) { s += (await mcp.a.b({n})).n } return s`, `6`},
		"ForAwait":           {`async function* g() { for (let i = 0; i < 3; i++) yield await mcp.a.b({i}) } const o = []; for await (const x of g()) o.push(x.i); return o`, `[0,1,2]`},
		"Enum":               {`enum E { A, B = "b" } return [E.A, E.B]`, `[0,"b"]`},
		"ConstEnum":          {`const enum E { A = 3 } return E.A`, `3`},
		"Types":              {`interface I { x: number } const f = <T,>(x: T): T => x; type U = I | null; return f<I>({x: 1} as I) satisfies U`, `{"x":1}`},
		"ClassPrivate":       {`class C<T> { #x: T; constructor(x: T) { this.#x = x } get v() { return this.#x } } return new C(4).v`, `4`},
		"ParamProperty":      {`class C { constructor(public x: number) {} } return new C(4).x`, `4`},
		"Words":              {`return "function class export import }{ )("`, `"function class export import }{ )("`},
		"NonASCII":           {`const ü = "é😀"; return {ü}`, `{"ü":"é😀"}`},
		"LoneSurrogate":      {`return "\ud800"`, `"\ud800"`},
		"EarlyReturn":        {`if (input.n === 1) { return "early" } return "late"`, `"early"`},
		"TryFinally":         {`let l = []; try { l.push(1); throw new Error("x") } catch (e) { l.push(e.message) } finally { l.push(3) } return l`, `[1,"x",3]`},
		"Strict":             {`try { undeclared = 1; return "sloppy" } catch (e) { return e.name }`, `"ReferenceError"`},
		"This":               {`return this === undefined`, `true`},
		"Then":               {`return [mcp.then === undefined, mcp.a.then === undefined, mcp.a.toJSON === undefined, mcp[Symbol.iterator] === undefined, typeof mcp.a.b]`, `[true,true,true,true,"function"]`},
		"AwaitMCP":           {`const m = await mcp; const s = await mcp.a; return (await s.b({k: 1})).k`, `1`},
		"SameTool":           {`return mcp.a.b === mcp.a.b && mcp.a === mcp.a`, `true`},
		"Snapshot":           {`const o = {x: 1}; const p = mcp.a.b(o); o.x = 2; return await p`, `{"x":1}`},
		"UndefinedMembers":   {`return await mcp.a.b({x: undefined, y: null, d: new Date(0)})`, `{"y":null,"d":"1970-01-01T00:00:00.000Z"}`},
		"Cycle":              {`const o = {}; o.o = o; try { mcp.a.b(o) } catch (e) { return e.name + ": " + e.message.includes("itself") }`, `"TypeError: true"`},
		"BigInt":             {`try { mcp.a.b({n: 1n}) } catch (e) { return e.name + " " + e.message.includes('"n"') }`, `"TypeError true"`},
		"FunctionArgument":   {`try { mcp.a.b(() => 1) } catch (e) { return e.name }`, `"TypeError"`},
		"FunctionWithin":     {`return await mcp.a.b({deep: [() => 1, Symbol("s")], f() {}, x: 1})`, `{"deep":[null,null],"x":1}`},
		"ReadOnlyMCP":        {`try { mcp.a = 1 } catch (e) { return e.name }`, `"TypeError"`},
		"Now":                {`const a = Date.now(); await mcp.a.b(); return [a, Date.now() - a, new Date().getTime() - a, typeof Date(), new Date(5).getTime()]`, `[1767323045006,1000,1000,"string",5]`},
		"DateIs":             {`return [new Date() instanceof Date, Date.prototype.constructor === Date, new Date(2020, 1, 2).getTimezoneOffset(), new Date(Date.UTC(2020,0,1)).toISOString()]`, `[true,true,0,"2020-01-01T00:00:00.000Z"]`},
		"Sleep":              {`const a = Date.now(); await new Promise(r => setTimeout(r, 50)); return Date.now() - a`, `1000`},
		"TimerArguments":     {`return await new Promise(r => setTimeout((a, b) => r(a + b), 1, 2, 3))`, `5`},
		"ClearTimeout":       {`let hit = false; const id = setTimeout(() => { hit = true }, 1); clearTimeout(id); clearTimeout(id); clearTimeout(99); await mcp.a.b(); return hit`, `false`},
		"Microtask":          {`const l = []; queueMicrotask(() => l.push(2)); l.push(1); await null; await null; return l`, `[1,2]`},
		"UUID":               {`return /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())`, `true`},
		"Random":             {`const l = Array.from({length: 1000}, Math.random); return l.every(x => x >= 0 && x < 1) && new Set(l).size === 1000`, `true`},
		"Missing":            {`return [typeof fetch, typeof require, typeof process, typeof Buffer, typeof window, typeof WeakRef, typeof SharedArrayBuffer, typeof performance, typeof std, typeof os]`, `["undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined"]`},
		"NoHooks":            {`return Object.getOwnPropertyNames(globalThis).filter(k => k.includes("pml") && k !== "pml" && k !== "__pml_none")`, `[]`},
		"NoHooksAfterLazy":   {`new URL("http://a/"); return Object.getOwnPropertyNames(globalThis).filter(k => k.includes("pml") && k !== "pml" && k !== "__pml_none")`, `[]`},
		"Clone":              {`const o = {a: [1, {b: new Map([[1, new Set([2])]])}], d: new Date(3)}; o.self = o; const c = structuredClone(o); return [c !== o, c.self === c, c.a[1].b.get(1).has(2), c.d.getTime(), c.d !== o.d]`, `[true,true,true,3,true]`},
		"CloneFunction":      {`try { structuredClone(() => 1) } catch (e) { return e.name }`, `"DataCloneError"`},
		"Base64":             {`return [btoa("hello"), atob("aGVsbG8="), atob(btoa("\x00\xff")) === "\x00\xff", btoa(""), atob("YQ")]`, `["aGVsbG8=","hello",true,"","a"]`},
		"Base64Bad":          {`const l = []; for (const f of [() => btoa("€"), () => atob("a"), () => atob("a$==")]) { try { f(); l.push("ok") } catch (e) { l.push(e.name) } } return l`, `["InvalidCharacterError","InvalidCharacterError","InvalidCharacterError"]`},
		"Text":               {`const b = new TextEncoder().encode("aé€😀\ud800"); return [[...b], new TextDecoder().decode(b)]`, `[[97,195,169,226,130,172,240,159,152,128,239,191,189],"aé€😀�"]`},
		"TextBroken":         {`return [new TextDecoder().decode(new Uint8Array([0x61, 0xe2, 0x82, 0x62, 0xff, 0xc0, 0x80])), (() => { try { new TextDecoder("utf-8", {fatal: true}).decode(new Uint8Array([255])) } catch (e) { return e.name } })()]`, `["a�b���","TypeError"]`},
		"URL":                {`const u = new URL("../b/./c?x=1&y=a%20b#h", "https://U:p@Example.COM:443/a/d/e"); u.searchParams.append("z", "ä &"); return [u.href, u.host, u.pathname, u.search, u.hash, u.origin, u.username, u.searchParams.get("y")]`, `["https://U:p@example.com/a/b/c?x=1&y=a+b&z=%C3%A4+%26#h","example.com","/a/b/c","?x=1&y=a+b&z=%C3%A4+%26","#h","https://example.com","U","a b"]`},
		"URLForms":           {`return ["http://[::1]:80/", "http://0x7f.1/", "file:///a/../b", "mailto:a@b", "http://a", "http:\\\\a\\b", "https://x/%7e/é?q='"].map(u => new URL(u).href)`, `["http://[::1]/","http://127.0.0.1/","file:///b","mailto:a@b","http://a/","http://a/b","https://x/%7e/%C3%A9?q=%27"]`},
		"URLInvalid":         {`return ["", "a", "http://", "http://a b/", "http://a:99999/", "http://[1/"].map(u => URL.canParse(u))`, `[false,false,false,false,false,false]`},
		"Params":             {`const p = new URLSearchParams({b: "1", a: "x y"}); p.append("b", "2"); p.sort(); p.delete("b", "1"); return [p.toString(), [...p], p.has("a"), p.get("zz"), p.size]`, `["a=x+y&b=2",[["a","x y"],["b","2"]],true,null,2]`},
		"Recursion":          {`function f() { return f() } try { f() } catch (e) { return e instanceof Error }`, `true`},
		"Eval":               {`return (0, eval)("1+2")`, `3`},
		"InputIsData":        {`return input`, `{"n":1}`},
		"JSONReplaced":       {`JSON.stringify = () => "hacked"; JSON.parse = () => 0; return await mcp.a.b({x: 1})`, `{"x":1}`},
		"ArrayPoisoned":      {`Array.prototype[Symbol.iterator] = null; Array.prototype.push = null; return await mcp.a.b({x: 1})`, `{"x":1}`},
		"ObjectPoisoned":     {`Object.prototype.get = () => 1; Object.prototype.value = 2; Object.prototype.writable = false; Object.prototype.resultBytes = 1; return await mcp.a.b({x: "long enough"})`, `{"x":"long enough"}`},
		"MapPoisoned":        {`Map.prototype.get = Map.prototype.set = null; WeakMap.prototype.get = null; return await mcp.a.b({x: 1})`, `{"x":1}`},
		"ThenPoisoned":       {`Promise.prototype.then = function () { throw 1 }; return 1`, `1`},
		"ReflectPoisoned":    {`Reflect.apply = null; Function.prototype.call = Function.prototype.apply = null; return await mcp.a.b({x: 1})`, `{"x":1}`},
		"ToJSONOnPrototype":  {`const r = await mcp.a.b({x: 1}); return r.x`, `1`},
		"SettledMix":         {`const r = await Promise.allSettled([mcp.a.b({x: 1}), Promise.reject(new Error("no"))]); return r.map(x => x.status)`, `["fulfilled","rejected"]`},
		"Race":               {`return await Promise.race([mcp.a.b({x: 1}), mcp.a.b({x: 2})])`, `{"x":1}`},
		"Destructured":       {`const {b} = mcp.a; return (await b({x: 1})).x`, `1`},
		"CommentAtEnd":       {`return 1 // done`, `1`},
		"TemplateKeepsLines": {"return `a\n  b`", `"a\n  b"`},
		"Regexp":             {`return "a1b22".replace(/\d+/g, m => "<" + m + ">")`, `"a<1>b<22>"`},
	} {
		t.Run(name, func(t *testing.T) {
			turn, _ := run(t, p, c.source)
			if !turn.Done || turn.Err != nil || turn.Unhandled != nil || string(turn.Result) != c.want {
				t.Errorf("got %s, err %v, unhandled %v, done %v; want %s", turn.Result, turn.Err, turn.Unhandled, turn.Done, c.want)
			}
		})
	}
}
