// Blocks a call whose arguments have a text that matches a pattern.
const pattern = new RegExp(context.parameters.pattern, "i");
const hit = (v) => typeof v === "string" ? pattern.test(v)
  : v && typeof v === "object" ? Object.entries(v).some(([k, x]) => pattern.test(k) || hit(x)) : pattern.test(String(v));
if (hit(context.request.params.arguments)) return { block: { code: "pattern", message: context.parameters.message } };
