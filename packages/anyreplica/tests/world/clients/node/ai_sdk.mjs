// The AI SDK of Vercel.
import { ElicitationRequestSchema, createMCPClient } from '@ai-sdk/mcp';
import { answer, converse, text } from './conversation.mjs';

await converse(
  async (url, headers) => {
    const client = await createMCPClient({
      transport: { type: 'http', url, headers },
      capabilities: { elicitation: {} },
    });
    client.onElicitationRequest(ElicitationRequestSchema, () => answer);
    const tools = await client.tools();
    const call = async (name, args) => text(await tools[name].execute(args, { toolCallId: '1', messages: [] }));
    return { names: Object.keys(tools), call };
  },
  { asked: true },
);
