// The adapters of LangChain.js.
import { MultiServerMCPClient } from '@langchain/mcp-adapters';
import { converse } from './conversation.mjs';

await converse(
  async (url, headers, report) => {
    const client = new MultiServerMCPClient({
      mcpServers: { calculator: { transport: 'http', url, headers } },
      onProgress: report,
    });
    const tools = await client.getTools();
    const call = async (name, args) => {
      const tool = tools.find((each) => each.name === name);
      return (await tool.invoke({ type: 'tool_call', id: '1', name, args })).content;
    };
    return { names: tools.map((tool) => tool.name), call };
  },
  { progress: true },
);
