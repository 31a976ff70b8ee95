// Notes who has read something from outside: what that says may be foreign instructions.
if (context.error) return;
const { outside, seconds } = context.parameters;
const { clientId, serverName, toolName } = context.metadata;
const glob = (g) => new RegExp("^" + g.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".") + "$", "i");
if (!outside.some((g) => glob(g).test(toolName) || glob(g).test(`${serverName}:${toolName}`))) return;
const now = Date.now();
const tainted = Object.fromEntries(Object.entries(context.variables.tainted ?? {}).filter(([, until]) => until > now));
tainted[clientId] = now + seconds * 1000;
return { variables: { tainted } };
