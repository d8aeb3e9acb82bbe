// Conversations of the first generation of the official TypeScript client.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { capabilities, converseAll, elicit, sample } from './conversation.mjs';

await converseAll((url, hear) => {
  const client = new Client({ name: 'v1', version: '1' }, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, elicit);
  client.setRequestHandler(CreateMessageRequestSchema, sample);
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => hear(params.uri));
  const callTool = (params, options) => client.callTool(params, undefined, options);
  return { client, transport: new StreamableHTTPClientTransport(new URL(url)), callTool };
});
