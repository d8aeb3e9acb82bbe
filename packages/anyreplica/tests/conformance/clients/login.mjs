// A login with the official TypeScript client: node login.mjs URL REDIRECT [DOCUMENT].
// It prints the URL at which the user logs in, reads the code from stdin, and prints the text of two calls. Between the
// calls it waits until the access token has expired. DOCUMENT is the URL of the client's metadata (CIMD).
import { createInterface } from 'node:readline/promises';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, redirect, document] = process.argv.slice(2);
const input = createInterface({ input: process.stdin });
setTimeout(() => process.exit(1), 60_000).unref();
const kept = {};
const provider = {
  redirectUrl: redirect,
  ...(document ? { clientMetadataUrl: document } : {}),
  clientMetadata: {
    client_name: 'typescript',
    redirect_uris: [redirect],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'none',
    scope: 'mcp reports:read',
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (target) => console.log(JSON.stringify({ authorize: target.href })),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};
const connect = async () => {
  const client = new Client({ name: 'typescript', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  return { client, transport };
};

const first = await connect();
await first.client.connect(first.transport).catch(() => {}); // the user must log in
const answer = new URLSearchParams(await input.question(''));
await first.transport.finishAuth(answer);
const { client, transport } = await connect();
await client.connect(transport);
const call = async () => (await client.callTool({ name: 'whoami', arguments: {} })).content[0].text;
const texts = [await call()];
const before = kept.tokens.access_token;
await new Promise((resolve) => setTimeout(resolve, (kept.tokens.expires_in + 1) * 1000));
texts.push(await call());
console.log(JSON.stringify({ texts, client: kept.client.client_id, renewed: kept.tokens.access_token !== before }));
await client.close();
process.exit(0);
