// The tables of the console, drawn as node draws them. Evaluates to a function
// that makes the one that draws.
(function () {
"use strict";
const hasOwn = Object.hasOwn;

// What stands in a cell of a table: a value on one line, opened one level deep.
function quoted(s) {
  const q = !s.includes("'") ? "'" : !s.includes('"') ? '"' : !s.includes("`") && !s.includes("${") ? "`" : "'";
  const short = { 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 39: "\\'", 92: "\\\\" };
  let out = "";
  for (const ch of s) {
    const c = ch.codePointAt(0);
    if (c === 92 || c === 39 && q === "'" || c < 32 && short[c]) out += short[c];
    else if (c < 32 || c >= 127 && c < 160) out += "\\x" + c.toString(16).toUpperCase().padStart(2, "0");
    else if (c >= 0xd800 && c < 0xe000) out += "\\u" + c.toString(16).toUpperCase();
    else out += ch;
  }
  return q + out + q;
}
const tagOf = (v) => Object.prototype.toString.call(v).slice(8, -1);
function named(v) {
  for (let o = v; o !== null; o = Object.getPrototypeOf(o)) {
    const d = Object.getOwnPropertyDescriptor(o, "constructor");
    if (d && typeof d.value === "function" && d.value.name !== "") return d.value.name;
  }
  return "[" + tagOf(v) + ": null prototype]";
}
function shownFunction(f) {
  const text = Function.prototype.toString.call(f);
  if (text.startsWith("class")) {
    const base = Object.getPrototypeOf(f);
    return "[class " + (f.name || "(anonymous)") + (base && base.name ? " extends " + base.name : "") + "]";
  }
  return "[" + tagOf(f) + (f.name ? ": " + f.name : " (anonymous)") + "]";
}
function shown(v, depth, root) {
  switch (typeof v) {
  case "string": return quoted(v);
  case "number": return Object.is(v, -0) ? "-0" : String(v);
  case "bigint": return v + "n";
  case "function": return Object.keys(v).length === 0 ? shownFunction(v) : shownObject(v, depth, root, shownFunction(v));
  case "object": return v === null ? "null" : v === root ? "[Circular *1]" : shownObject(v, depth, root, "");
  }
  return String(v);
}
function member(o, k) {
  const d = Object.getOwnPropertyDescriptor(o, k);
  return d.get ? d.set ? "[Getter/Setter]" : "[Getter]" : d.set ? "[Setter]" : undefined;
}
// most is how many items of a list are shown.
const most = 3;
function items(list, size, depth, root, each) {
  const out = [];
  let n = 0;
  for (const x of list) { if (n++ === most) break; out.push(each(x)); }
  if (size > most) out.push("... " + (size - most) + " more item" + (size - most > 1 ? "s" : ""));
  return out;
}
function shownObject(v, depth, root, base) {
  const top = root === undefined;
  root ??= v;
  const inner = (x) => shown(x, depth - 1, root), kind = named(v), list = Array.isArray(v) || ArrayBuffer.isView(v) && !(v instanceof DataView);
  const keys = (list ? Object.keys(v).filter((k) => !/^(0|[1-9][0-9]*)$/.test(k)) : Object.keys(v)).concat(Object.getOwnPropertySymbols(v).filter((s) => Object.prototype.propertyIsEnumerable.call(v, s)));
  let open = "{", close = "}", out = [], prefix = kind === "Object" || base !== "" ? "" : kind + " ";
  if (list) {
    open = "["; close = "]";
    prefix = kind === "Array" ? "" : kind + "(" + v.length + ") ";
    if (v.length > 0) for (let i = 0, n = 0; i < v.length; i++, n++) {
      if (n === most) { out.push("... " + (v.length - i) + " more item" + (v.length - i > 1 ? "s" : "")); break; }
      let holes = 0;
      while (i < v.length && !hasOwn(v, i)) { holes++; i++; }
      if (holes > 0) { out.push("<" + holes + " empty item" + (holes > 1 ? "s" : "") + ">"); i--; continue; }
      out.push(depth < 0 && !ArrayBuffer.isView(v) ? "" : inner(v[i]));
    }
  } else if (v instanceof Map) { prefix = kind + "(" + v.size + ") "; out = items(v, v.size, depth, root, ([k, x]) => depth < 0 ? "" : inner(k) + " => " + inner(x)); }
  else if (v instanceof Set) { prefix = kind + "(" + v.size + ") "; out = items(v, v.size, depth, root, (x) => depth < 0 ? "" : inner(x)); }
  else if (v instanceof Date) base = v.getTime() === v.getTime() ? v.toISOString() : "Invalid Date";
  else if (v instanceof RegExp) base = String(v);
  else if (v instanceof Error) base = "[" + String(v).replaceAll("\n", "\\n") + "]";
  else if (v instanceof Number || v instanceof String || v instanceof Boolean) base = "[" + kind + ": " + shown(v.valueOf(), 0, root) + "]";
  if (base !== "" && keys.length === 0) return base;
  if (out.length === 0 && keys.length === 0) return prefix + open + close;
  if (depth < 0 && !ArrayBuffer.isView(v)) return "[" + (kind.startsWith("[") ? kind.slice(1, -1) : kind) + "]";
  for (const k of keys) {
    const name = typeof k === "symbol" ? "[" + String(k) + "]" : /^[A-Za-z_$][\w$]*$/.test(k) ? k : quoted(k);
    out.push(name + ": " + (member(v, k) ?? inner(v[k])));
  }
  const text = (base === "" ? prefix : "") + open + " " + (base === "" ? "" : base + " ") + out.join(", ") + " " + close;
  return top && out.some((s) => s.includes("[Circular *1]")) ? "<ref *1> " + text : text;
}
const cell = (v) => shown(v, v !== null && typeof v === "object" && !Array.isArray(v) && Object.keys(v).length > 2 ? -1 : 0, undefined);

// width is how many columns of a terminal a text takes.
const wideRanges = [[0x1100, 0x115f], [0x2e80, 0x303e], [0x3041, 0xa4cf], [0xa960, 0xa97f], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfe30, 0xfe6f], [0xff01, 0xff60], [0xffe0, 0xffe6], [0x1f300, 0x1f64f], [0x1f680, 0x1f6ff], [0x1f900, 0x1f9ff], [0x20000, 0x3fffd]];
function width(s) {
  let n = 0;
  for (const ch of s) {
    const c = ch.codePointAt(0);
    if (c < 127) n += c > 31;
    else if (!/[\p{Mn}\p{Me}\p{Cf}\p{Cc}]/u.test(ch)) n += wideRanges.some(([a, b]) => c >= a && c <= b) ? 2 : 1;
  }
  return n;
}
// table draws what console.table is given, a line each; undefined for what is no table.
function table(data, columns) {
  if (columns !== undefined && !Array.isArray(columns)) throw new TypeError("console.table takes its columns as a list of names");
  const draw = (heads, cols) => {
    const rows = cols.reduce((n, c) => Math.max(n, c.length), 0), text = (c, i) => c[i] ?? "";
    const widths = heads.map((h, j) => Math.max(width(h), ...cols[j].map((s) => width(s ?? ""))) + 2);
    const line = (a, b, c) => a + widths.map((w) => "─".repeat(w)).join(b) + c;
    const row = (list) => "│" + list.map((s, j) => " " + s + " ".repeat(widths[j] - width(s) - 1)).join("│") + "│";
    const out = [line("┌", "┬", "┐"), row(heads), line("├", "┼", "┤")];
    for (let i = 0; i < rows; i++) out.push(row(cols.map((c) => text(c, i))));
    out.push(line("└", "┴", "┘"));
    return out;
  };
  const count = (n) => Array.from({ length: n }, (_, i) => String(i)), tag = tagOf(data);
  if (data instanceof Map || tag === "Map Iterator") {
    const pairs = [...data];
    if (data instanceof Map || pairs.every((p) => Array.isArray(p) && p.length === 2)) return draw(["(iteration index)", "Key", "Values"], [count(pairs.length), pairs.map((p) => cell(p[0])), pairs.map((p) => cell(p[1]))]);
    return draw(["(iteration index)", "Values"], [count(pairs.length), pairs.map(cell)]);
  }
  if (data instanceof Set || tag === "Set Iterator") { const all = [...data]; return draw(["(iteration index)", "Values"], [count(all.length), all.map(cell)]); }
  const index = Object.keys(data), byColumn = new Map(), values = [];
  let plain = false;
  index.forEach((k, i) => {
    const item = data[k], primitive = item === null || typeof item !== "function" && typeof item !== "object";
    if (primitive && columns === undefined) { plain = true; values[i] = cell(item); return; }
    for (const name of columns ?? Object.keys(item)) {
      if (!byColumn.has(String(name))) byColumn.set(String(name), []);
      byColumn.get(String(name))[i] = primitive || !hasOwn(item, name) ? "" : cell(item[name]);
    }
  });
  // Names that are numbers come first, as keys of an object.
  const names = Object.keys(Object.fromEntries([...byColumn.keys()].map((k) => [k, 1])));
  const heads = ["(index)", ...names], cols = [index, ...names.map((k) => byColumn.get(k))];
  if (plain) { heads.push("Values"); cols.push(values); }
  return draw(heads, cols.map((c) => Array.from(c)));
}
return { __proto__: null, table };
})
