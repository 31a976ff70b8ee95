// Cuts long texts of a result, and says so.
if (!context.response) return;
const most = context.parameters.max_chars;
let cuts = 0;
const cut = (text) => {
  if (text.length <= most) return text;
  cuts++;
  return `${text.slice(0, most)}… [${text.length - most} of ${text.length} characters were cut; ask for less at once]`;
};
const walk = (v) => typeof v === "string" ? cut(v)
  : Array.isArray(v) ? v.map(walk)
  : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, walk(x)])) : v;
const { content, structuredContent, ...rest } = context.response;
const response = { ...rest };
if (content) response.content = content.map((b) => b.type === "text" ? { ...b, text: cut(b.text) } : b);
const inTexts = cuts;
if (structuredContent) {
  const data = walk(structuredContent);
  // Texts that were cut and data that was not would say different things.
  if (cuts > inTexts || inTexts === 0) response.structuredContent = data;
}
if (cuts > 0) return { response };
