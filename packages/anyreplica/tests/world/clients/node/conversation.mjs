// The steps that each framework takes: node FRAMEWORK.mjs URL KEY.
//
// A script of a framework passes `converse` a function that connects to the server. Each step prints a line of JSON: its
// name and its result, or its error. Before a step `call after a kill`, the script prints `kill` and waits for a line.
import { createInterface } from 'node:readline';

// The answer of the user whom the server asks.
export const answer = { action: 'accept', content: { name: 'Ada' } };

export const text = (result) => result.content.map((each) => each.text).join(' ');

const print = (step, result) => console.log(JSON.stringify({ step, result }));

// The texts of an error and of its causes.
const textOf = (error) => (error ? [`${error.name}: ${error.message}`, textOf(error.cause)].filter(Boolean).join(' | ') : '');

const limit = (work) =>
  Promise.race([work, new Promise((_, reject) => setTimeout(() => reject(new Error('no result after 60 s')), 60000))]);

async function step(name, work) {
  try {
    const result = await limit(work());
    print(name, typeof result === 'string' ? result : JSON.stringify(result));
  } catch (error) {
    print(name, `error: ${textOf(error)}`);
  }
}

// `connect` takes the URL, the headers, and a function for the server's progress. It returns the names of the tools, and
// a function that calls a tool as an agent does and returns what the model gets.
export async function converse(connect, { progress = false, asked = false } = {}) {
  const [url, key] = process.argv.slice(2);
  const reports = [];
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  try {
    const report = (params) => reports.push(`${params.progress}/${params.total}`);
    const { names, call } = await connect(url, { Authorization: `Bearer ${key}` }, report);
    print('list', names.toSorted().join(' '));
    await step('call', () => call('add', { first: 2, second: 3 }));
    await step('wrong arguments', () => call('add', { first: 2, second: 'three' }));
    if (progress) {
      await step('count', () => call('count', { steps: 3 }));
      // A report may arrive after the result.
      for (let tries = 0; tries < 100 && reports.length < 3; tries++) await new Promise((done) => setTimeout(done, 50));
      print('progress', reports.join(' '));
    }
    if (asked) await step('being asked', () => call('greet', {}));
    for (let number = 0; number < 3; number++) {
      print('kill', '');
      await lines.next();
      // Node notices the closed connection of the killed replica.
      for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate);
      await step('call after a kill', () => call('add', { first: number, second: 1 }));
    }
  } catch (error) {
    print('error', textOf(error));
  }
  const refused = async (headers) => `accepted, with ${(await connect(url, headers, () => {})).names.length} tools`;
  await step('without a key', () => refused({}));
  await step('with a wrong key', () => refused({ Authorization: 'Bearer wrong' }));
  process.exit(0);
}
