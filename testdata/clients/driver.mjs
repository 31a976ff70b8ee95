// What the drivers of all clients have in common. A test writes commands to
// stdin, a JSON object a line, and reads answers from stdout in the same form:
//
//   {"id":1,"op":"connect","target":{…}}               -> {"id":1,"value":{"version":"…","pid":7}}
//   {"id":2,"op":"tools"}                              -> {"id":2,"value":["execute",…]}
//   {"id":3,"op":"call","name":"…","arguments":{…}}    -> {"id":3,"progress":{…}}…, {"id":3,"value":{…}}
//   {"op":"cancel","of":3}                             -> {"id":3,"error":{…}}
//   {"id":4,"op":"trace"}                              -> {"id":4,"value":[{"progress":1},{"answer":1},…]}
//
// A command does not wait for the one before. The end of stdin closes the
// client.
import { createInterface } from "node:readline";

const minutes = 60_000;

// traced keeps the order in which messages reach the client: progress by its
// token, answers by their id, which is the token of their request.
function traced(transport) {
  const trace = [];
  const inner = transport.onmessage;
  transport.onmessage = (message, ...more) => {
    if (message.method === "notifications/progress") trace.push({ progress: message.params.progressToken });
    else if (message.method === undefined) trace.push({ answer: message.id });
    return inner?.call(transport, message, ...more);
  };
  return trace;
}

// answering is the answer of whoever sits at the client to a question of the
// server: a form filled in or declined, after some milliseconds.
export function answering({ action, after }) {
  return async ({ params }) => {
    await new Promise((resolve) => setTimeout(resolve, after));
    if (action !== "accept") return { action };
    const typed = /To approve, type ([0-9a-z]{4})\./.exec(JSON.stringify(params));
    return { action, content: typed ? { confirm: typed[1] } : { approve: true } };
  };
}

// drive answers commands with what connect(target) gives: a client and its
// transport, and the protocol's version.
export async function drive(connect) {
  const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
  const running = new Map();
  let session, trace;
  const ops = {
    async connect({ target }) {
      session = await connect(target);
      trace = traced(session.transport);
      return { version: session.version(), pid: session.transport.pid ?? 0 };
    },
    async tools() {
      const { tools } = await session.client.listTools();
      return tools.map((tool) => tool.name);
    },
    call({ id, name, arguments: args, progress }, signal) {
      const options = { signal, timeout: 5 * minutes };
      if (progress) options.onprogress = (p) => say({ id, progress: p });
      return session.call({ name, arguments: args }, options);
    },
    async trace() {
      return trace;
    },
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if (command.op === "cancel") {
      running.get(command.of)?.abort("not wanted any more");
      continue;
    }
    const { id } = command;
    const stop = new AbortController();
    running.set(id, stop);
    Promise.resolve()
      .then(() => ops[command.op](command, stop.signal))
      .then(
        (value) => say({ id, value }),
        (error) => say({ id, error: { message: String(error?.message ?? error), code: error?.code ?? 0 } }),
      )
      .finally(() => running.delete(id));
  }
  await session?.client.close();
  process.exit(0);
}
