// The echo on the first generation of the official TypeScript SDK, stateless, with JSON replies; it listens on MCP_PORT.

import { createServer } from 'node:http';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const inputSchema = { message: z.string().describe('Any text.') };

// A stateless transport serves only one request, and a server has only one transport. So each request needs new ones.
function newServer() {
  const server = new McpServer({ name: 'peer', version: '1' });
  server.registerTool('echo', { description: 'Give a message back.', inputSchema }, async ({ message }) => ({
    content: [{ type: 'text', text: message }],
  }));
  return server;
}

createServer(async (request, response) => {
  if (request.method === 'GET') {
    response.end();
    return;
  }
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  await newServer().connect(transport);
  await transport.handleRequest(request, response);
}).listen(Number(process.env.MCP_PORT), '127.0.0.1');
