// Drives @modelcontextprotocol/client, the second generation, in the mode that
// is named on the command line: auto finds the newest revision, legacy shakes
// hands as ever.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { answering, drive } from "./driver.mjs";

await drive(async (target) => {
  const transport = target.url
    ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers: target.headers } })
    : new StdioClientTransport({ ...target, stderr: "ignore" });
  const client = new Client({ name: "client", version: "2" }, {
    versionNegotiation: { mode: process.argv[2] },
    capabilities: target.elicits ? { elicitation: { form: {} } } : {},
  });
  if (target.elicits) client.setRequestHandler("elicitation/create", answering(target.elicits));
  await client.connect(transport);
  return {
    client,
    transport,
    version: () => client.getNegotiatedProtocolVersion(),
    call: (params, options) => client.callTool(params, options),
  };
});
