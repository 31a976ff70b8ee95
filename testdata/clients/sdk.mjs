// Drives the client of @modelcontextprotocol/sdk.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

import { answering, drive } from "./driver.mjs";

await drive(async (target) => {
  const transport = target.url
    ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers: target.headers } })
    : new StdioClientTransport({ ...target, stderr: "ignore" });
  // Over stdio the transport does not know the version; the handshake says it.
  let version = "";
  transport.setProtocolVersion ??= () => {};
  const told = transport.setProtocolVersion;
  transport.setProtocolVersion = (v) => {
    version = v;
    told.call(transport, v);
  };
  const client = new Client({ name: "sdk", version: "1" }, { capabilities: target.elicits ? { elicitation: { form: {} } } : {} });
  if (target.elicits) client.setRequestHandler(ElicitRequestSchema, answering(target.elicits));
  await client.connect(transport);
  return { client, transport, version: () => version, call: (params, options) => client.callTool(params, undefined, options) };
});
