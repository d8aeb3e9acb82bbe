// The second generation of the official SDK. It finds out which protocol the server speaks.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { answer, converse, text } from './conversation.mjs';

await converse(
  async (url, headers, report) => {
    const client = new Client({ name: 'v2', version: '1' }, { capabilities: { elicitation: {} } });
    client.setRequestHandler('elicitation/create', () => answer);
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    const call = async (name, args) => text(await client.callTool({ name, arguments: args }, { onprogress: report }));
    return { names, call };
  },
  { progress: true, asked: true },
);
