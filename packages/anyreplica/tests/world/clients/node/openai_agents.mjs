// The OpenAI Agents SDK.
import { MCPServerStreamableHttp, RunContext, getAllMcpTools } from '@openai/agents';
import { converse } from './conversation.mjs';

await converse(async (url, headers) => {
  const server = new MCPServerStreamableHttp({ url, name: 'calculator', requestInit: { headers }, timeout: 60000 });
  await server.connect();
  const tools = await getAllMcpTools([server]);
  const call = (name, args) => tools.find((tool) => tool.name === name).invoke(new RunContext({}), JSON.stringify(args));
  return { names: tools.map((tool) => tool.name), call };
});
