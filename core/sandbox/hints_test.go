package sandbox_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/hints.golden")

// hintScripts use what agents know from elsewhere. What they get is a file, so
// that a change of it is seen.
var hintScripts = []string{
	"return mcp.echo({})",
	"try { await mcp.callTool('a:b', {}) } catch (e) { return e.message }",
	"try { await mcp.tool('every:get-sum', {}) } catch (e) { return e.message }",
	"try { await mcp.echo('every:get_sum', {}) } catch (e) { return e.message }",
	"try { await mcp.tool('echo') } catch (e) { return e.message }",
	"return [typeof mcp.a.b, mcp.a.then === undefined, Object.keys(mcp.a)]",
	"return crypto.getRandomValues(new Uint8Array(4)).length + crypto.getRandomValues(new Uint32Array(2)).filter(x => x > 0).length",
	"crypto.getRandomValues([1])",
	"return await Array.fromAsync([Promise.resolve(1), 2], async x => x * 2)",
	"return await Array.fromAsync((async function* () { yield 1; yield 2 })())",
	"return await Array.fromAsync({length: 2, 0: 'a', 1: Promise.resolve('b')})",
	"try { await fetch('http://a') } catch (e) { return [e.name, e instanceof ReferenceError, e.message] }",
	"return await Promise.resolve().then(() => require('fs')).catch(e => e.message)",
	"return [typeof fetch, typeof require === 'undefined', typeof process !== 'undefined' ? 1 : 2, 'fetch' in globalThis, globalThis.fetch, typeof Buffer]",
	"try { return typeof process.env } catch (e) { return e.message }",
	"try { return Buffer.from('a') } catch (e) { return e.message }",
	"try { return new XMLHttpRequest() } catch (e) { return e.message }",
	"try { setImmediate(() => 1) } catch (e) { return e.message }",
	"try { module.exports = 1 } catch (e) { return e.message }",
	"try { fetch = 1 } catch (e) { return e.message }",
	"const fetch = (x) => x; return [fetch(1), typeof fetch]",
	"globalThis.fetch = (x) => x + 1; return [fetch(1), typeof fetch, {fetch}.fetch(2)]",
	"const f = ({process}) => typeof process; return f({process: 1})",
	"try { nowhere() } catch (e) { return e.message }",
	"const c = new AbortController(); const seen = []; c.signal.addEventListener('abort', e => seen.push(e.type)); c.signal.onabort = () => seen.push('on'); c.abort(); c.abort(); return [c.signal.aborted, c.signal.reason.name, c.signal.reason.message, c.signal.reason.code, seen]",
	"try { AbortSignal.abort('why').throwIfAborted() } catch (e) { return e }",
	"const a = new AbortController(), s = AbortSignal.any([a.signal, AbortSignal.timeout(5)]); a.abort(1); return [s.aborted, s.reason, String(s)]",
	"new AbortSignal()",
	"const t = new EventTarget(); let n = 0; t.addEventListener('x', () => n++, {once: true}); t.dispatchEvent(new Event('x')); t.dispatchEvent(new Event('x')); return n",
	"new Intl.NumberFormat('de')",
	"```js\nreturn 1 + 1\n```",
	"```js\nreturn 1 + 1\n",
	"```js\nreturn 1 + 1\n```\nThis adds one and one.",
	"```typescript\nimport type { A } from 'x';\n// a comment\n\nconst a: number = 2;\nreturn a\n```\n",
	"#!/usr/bin/env node\nreturn 2",
	"#!/usr/bin/env node\r\nimport type { A } from 'x';\r\nimport type {\r\n  B,\r\n} from 'x'\r\nconst a: A = 4;\r\nreturn a\r\n",
	"```ts\r\n#!/usr/bin/env node\r\n'use strict';\r\nimport { type A } from 'x';\r\nconst a: A = 5; return a\r\n```\r\n",
	"/* what\n it does */\nimport type {\n  A, // the first\n  B,\n} from 'x';\nimport { type C, type D as E } from \"y\"\nconst a: A = 1; return a\nnope()",
	"import type {\n  A,\n} from 'x'; const a = 1; return a",
	"import {\n  a,\n} from 'x';\nreturn a",
	"import fs from 'fs'\nreturn 1",
	"return `\nimport type { A } from 'x';\n`",
	"console.log('%s is %d of %i, %f %j %o %% %c|', 'a', 1.5, '2.7', '3.5', {b: 1}, [1], 'color: red', 'rest')",
	"console.log('100%', 5, '%s')",
	"console.table([{a: 1}, {b: 'x'}], ['b', 'a'])",
	"console.table('a')",
	"console.table([1], 'a')",
	"return new Date().toLocaleString('de-DE', {timeZone: 'Europe/Berlin'})",
	"return new Date().toLocaleDateString()",
	"return new Date().toLocaleTimeString()",
	"return (1234.5).toLocaleString('de-DE')",
	"try { return (1n).toLocaleString() } catch (e) { return e.message }",
	"return ['I'.toLocaleLowerCase(), 'i'.toLocaleUpperCase()]",
	"return 'I'.toLocaleLowerCase('tr')",
	"return ['b', 'A', 'a', 'B', 'ab', '_', '10', '9', 'a-b', 'a b', ''].sort((x, y) => x.localeCompare(y))",
	"return 'ä'.localeCompare('z')",
	"return 'a'.localeCompare('b', 'sv')",
	"return 'a10'.localeCompare('a9', undefined, {numeric: true})",
	"return JSON.stringify(pml) + typeof pml.limits.result_bytes",
	"pml.limits.result_bytes = 1",
	"await fetch('http://a')",
	"const fs = require('fs')",
	"setInterval(() => 1, 5)",
	"performance.now()",
}

func TestHints_Golden(t *testing.T) {
	t.Parallel()
	p := newPool(t, patientLimits)
	var b strings.Builder
	for _, source := range hintScripts {
		fmt.Fprintf(&b, "> %s\n", strings.ReplaceAll(source, "\n", "\n  "))
		c, err := p.Compile(t.Context(), source, "test.ts")
		if err != nil {
			fmt.Fprintf(&b, "refused: %v\n\n", err)
			continue
		}
		s, turn := mustOpen(t, p, source, "")
		for _, l := range turn.Logs {
			fmt.Fprintf(&b, "%s: %s\n", l.Level, l.Text)
		}
		_ = c
		s.Close()
		switch {
		case turn.Err != nil:
			fmt.Fprintf(&b, "error: %s\n\n", turn.Err.Message)
		default:
			fmt.Fprintf(&b, "result: %s\n\n", turn.Result)
		}
	}
	file := filepath.Join("testdata", "hints.golden")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}
