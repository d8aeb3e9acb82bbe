// Conversations of the official TypeScript clients with a swarm: node v1.mjs|v2.mjs URL COUNT AT_ONCE.
// Each conversation prints a line of JSON: for each step, the text that the client got or the error.

const MOST_SECONDS = 60;
const form = { action: 'accept', content: { value: 'Ada', name: 'Ada' } };
const model = { role: 'assistant', model: 'test', content: { type: 'text', text: 'Paris' } };

export const capabilities = { elicitation: {}, sampling: {} };

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// A user or a model that takes up to a second.
export const elicit = async () => (await pause(Math.random() * 1000), form);
export const sample = async () => (await pause(Math.random() * 1000), model);

async function converse(connect, url, number) {
  const heard = new Set();
  const steps = {};
  const step = async (name, work) => {
    try {
      steps[name] = await work();
    } catch (error) {
      steps[name] = `error: ${error.message}`;
    }
  };
  const { client, transport, callTool } = connect(url, (uri) => heard.add(uri));
  const call = async (name, args = {}) => {
    const result = await callTool({ name, arguments: args }, { timeout: MOST_SECONDS * 1000 });
    return result.content[0].text;
  };
  const uri = `a://${number}`;
  await step('connect', () => client.connect(transport).then(() => 'done'));
  await step('subscribe', () => client.subscribeResource({ uri }).then(() => 'done'));
  await step('greet', () => call('greet'));
  await step('interview', () => call('interview', { path: '/dev/null' }));
  await step('test_sampling', () => call('test_sampling', { prompt: '?' }));
  await step('hear', async () => {
    // A notification is lost if it comes while the client opens its event stream again.
    for (let tries = 0; tries < 20 && !heard.has(uri); tries++) {
      await call('touch', { uri });
      for (let waits = 0; waits < 20 && !heard.has(uri); waits++) await pause(50);
    }
    return heard.has(uri) ? 'done' : 'heard nothing';
  });
  await step('end', () => transport.terminateSession().then(() => 'done'));
  await client.close();
  console.log(JSON.stringify(steps));
}

export async function converseAll(connect) {
  const [url, count, atOnce] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
  let next = 0;
  const worker = async () => {
    while (next < count) await converse(connect, url, `${process.pid}-${next++}`);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  process.exit(0);
}
