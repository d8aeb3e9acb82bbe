// Mastra.
import { randomUUID } from 'node:crypto';
import { MCPClient } from '@mastra/mcp';
import { answer, converse } from './conversation.mjs';

await converse(
  async (url, headers, report) => {
    const calculator = {
      url: new URL(url),
      requestInit: { headers },
      connectTimeout: 60000,
      enableProgressTracking: true,
      inputRequests: () => answer,
    };
    const client = new MCPClient({ id: randomUUID(), servers: { calculator } });
    const { toolsets, errors } = await client.listToolsetsWithErrors();
    if (errors.calculator) throw new Error(errors.calculator);
    const tools = toolsets.calculator;
    await client.progress.onUpdate('calculator', report);
    return { names: Object.keys(tools), call: (name, args) => tools[name].execute(args, {}) };
  },
  { progress: true, asked: true },
);
