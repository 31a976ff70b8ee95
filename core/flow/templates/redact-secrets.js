// Takes what looks like a secret out of a result, in its texts and its data.
if (!context.response) return;
const patterns = [
  /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g,
  /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/g, // AWS
  /\bgh[pousr]_[A-Za-z0-9]{36,}\b/g, /\bgithub_pat_[A-Za-z0-9_]{40,}\b/g,
  /\bglpat-[A-Za-z0-9_-]{20,}/g, /\bxox[abprs]-[A-Za-z0-9-]{10,}/g,
  /\bsk-[A-Za-z0-9_-]{20,}/g, /\bnpm_[A-Za-z0-9]{36}\b/g,
  /\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}/g, // a JSON web token
  ...context.parameters.patterns.map((p) => new RegExp(p, "g")),
];
let found = 0;
const clean = (text) => patterns.reduce((t, p) => t.replace(p, () => { found++; return "[redacted]"; }), text);
const walk = (v) => typeof v === "string" ? clean(v)
  : Array.isArray(v) ? v.map(walk)
  : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, walk(x)])) : v;
const response = walk(context.response);
if (found === 0) return;
console.log(`${found} secret(s) taken out`);
return { response };
