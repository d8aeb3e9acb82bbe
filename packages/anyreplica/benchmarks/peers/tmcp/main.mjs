// The echo on tmcp, stateless, with the schemas of zod; it listens on MCP_PORT.

import { serve } from '@hono/node-server';
import { ZodJsonSchemaAdapter } from '@tmcp/adapter-zod';
import { HttpTransport } from '@tmcp/transport-http';
import { McpServer } from 'tmcp';
import { z } from 'zod';

const server = new McpServer(
  { name: 'peer', version: '1' },
  { adapter: new ZodJsonSchemaAdapter(), capabilities: { tools: {} } },
);
const schema = z.object({ message: z.string().describe('Any text.') });
server.tool({ name: 'echo', description: 'Give a message back.', schema }, async ({ message }) => ({
  content: [{ type: 'text', text: message }],
}));

const transport = new HttpTransport(server, { path: '/mcp' });

async function fetch(request) {
  return (await transport.respond(request)) ?? new Response();
}

serve({ fetch, hostname: '127.0.0.1', port: Number(process.env.MCP_PORT) });
