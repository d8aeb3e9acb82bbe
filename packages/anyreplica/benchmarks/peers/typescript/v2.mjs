// The echo on the second generation of the official TypeScript SDK, stateless, with JSON replies; it listens on MCP_PORT.

import { serve } from '@hono/node-server';
import { createMcpHandler, McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { z } from 'zod';

const inputSchema = z.object({ message: z.string().describe('Any text.') });

// A stateless transport serves only one request, and a server has only one transport. So each request needs new ones.
function newServer() {
  const server = new McpServer({ name: 'peer', version: '1' });
  server.registerTool('echo', { description: 'Give a message back.', inputSchema }, async ({ message }) => ({
    content: [{ type: 'text', text: message }],
  }));
  return server;
}

const modern = createMcpHandler(newServer, { legacy: 'reject', responseMode: 'json' });

// The handler above would answer a handshake-protocol request with an event stream. This transport answers with JSON.
async function legacy(request) {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await newServer().connect(transport);
  return transport.handleRequest(request);
}

async function fetch(request) {
  if (request.method === 'GET') return new Response();
  return request.headers.get('mcp-protocol-version') === '2026-07-28' ? modern.fetch(request) : legacy(request);
}

serve({ fetch, hostname: '127.0.0.1', port: Number(process.env.MCP_PORT) });
