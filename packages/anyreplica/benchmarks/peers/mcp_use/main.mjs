// The echo on mcp-use, stateless, without a log; it listens on MCP_PORT.

import { MCPServer } from 'mcp-use';
import { z } from 'zod';

const server = new MCPServer({ name: 'peer', version: '1', logging: { enabled: false } });
const inputSchema = z.object({ message: z.string().describe('Any text.') });
server.tool({ name: 'echo', description: 'Give a message back.', inputSchema }, async ({ message }) => ({
  content: [{ type: 'text', text: message }],
}));
server.get('/readyz', () => new Response());

await server.listen(Number(process.env.MCP_PORT), { host: '127.0.0.1' });
