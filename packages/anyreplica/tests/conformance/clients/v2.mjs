// Conversations of the second generation of the official TypeScript client, over the handshake protocol.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { capabilities, converseAll, elicit, sample } from './conversation.mjs';

await converseAll((url, hear) => {
  const client = new Client({ name: 'v2', version: '1' }, { capabilities });
  client.setRequestHandler('elicitation/create', elicit);
  client.setRequestHandler('sampling/createMessage', sample);
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => hear(params.uri));
  const callTool = (params, options) => client.callTool(params, options);
  return { client, transport: new StreamableHTTPClientTransport(new URL(url)), callTool };
});
