// The first generation of the official SDK.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { answer, converse, text } from './conversation.mjs';

await converse(
  async (url, headers, report) => {
    const client = new Client({ name: 'v1', version: '1' }, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, () => answer);
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    const call = async (name, args) =>
      text(await client.callTool({ name, arguments: args }, undefined, { onprogress: report }));
    return { names, call };
  },
  { progress: true, asked: true },
);
