// Writes a call as curl, Python and TypeScript.
import { copied, h, tabs } from "./dom.js";
import { stringify } from "./json.js";

/**
 * @typedef {import("./protocol.js").Sent} Sent
 * @typedef {{method: string, params: any}} Call
 */

/**
 * Show a call in three languages.
 * @param {Sent} sent the request as it went over the wire
 * @param {Call} call
 * @param {{url: string, secured: boolean}} server
 */
export function snippets(sent, call, server) {
  return inLanguages(curl(sent, server), python(call, server), typescript(call, server));
}

/**
 * Show a request to a route of the server, such as `/jobs`, in three languages.
 * @param {Sent} sent
 * @param {{url: string, secured: boolean}} server the URL of the route
 */
export function routeSnippets(sent, server) {
  return inLanguages(curl(sent, server), pythonRequest(sent, server), typescriptRequest(sent, server));
}

/**
 * @param {string} curl
 * @param {string} python
 * @param {string} typescript
 */
function inLanguages(curl, python, typescript) {
  const all = /** @type {[string, HTMLElement][]} */ ([
    ["curl", h("div", {}, copied(curl, "The call with curl"))],
    ["Python", h("div", {}, copied(python, "The call in Python"))],
    ["TypeScript", h("div", {}, copied(typescript, "The call in TypeScript"))],
  ]);
  return tabs("The same call in code", all).element;
}

/**
 * @param {Sent} sent
 * @param {{url: string, secured: boolean}} server
 */
function curl({ headers, message }, { url, secured }) {
  const lines = Object.entries(headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`);
  if (secured) lines.push('  -H "Authorization: Bearer $MCP_TOKEN"');
  return [`curl -N ${quoted(url)}`, ...lines, `  -d ${quoted(stringify(message))}`].join(" \\\n");
}

/** @type {Record<string, {python: string, typescript: string}>} */
const METHODS = {
  "tools/call": { python: "call_tool", typescript: "callTool" },
  "prompts/get": { python: "get_prompt", typescript: "getPrompt" },
  "resources/read": { python: "read_resource", typescript: "readResource" },
};

/**
 * @param {Call} call
 * @param {{url: string, secured: boolean}} server
 */
function python({ method, params }, { url, secured }) {
  const named = params.uri ?? params.name;
  const given = params.arguments === undefined ? "" : `, ${pythonValue(params.arguments, 2)}`;
  const token = secured ? ', auth=os.environ["MCP_TOKEN"]' : "";
  return `import asyncio
${secured ? "import os\n" : ""}
from fastmcp import Client  # pip install fastmcp


async def main() -> None:
    async with Client(${pythonValue(url)}${token}) as client:
        result = await client.${METHODS[method].python}(${pythonValue(named)}${given})
        print(result)


asyncio.run(main())
`;
}

/**
 * @param {Call} call
 * @param {{url: string, secured: boolean}} server
 */
function typescript({ method, params }, { url, secured }) {
  const options = secured
    ? ", {\n  requestInit: { headers: { Authorization: `Bearer ${process.env.MCP_TOKEN}` } },\n}"
    : "";
  const { _meta, ...given } = params;
  return `// npm install @modelcontextprotocol/client
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const client = new Client({ name: "example", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)})${options}));
const result = await client.${METHODS[method].typescript}(${stringify(given, 2)});
console.log(result);
await client.close();
`;
}

/**
 * @param {Sent} sent
 * @param {{url: string, secured: boolean}} server
 */
function pythonRequest({ message }, { url, secured }) {
  const token = secured ? ', headers={"Authorization": f"Bearer {os.environ[\'MCP_TOKEN\']}"}' : "";
  return `${secured ? "import os\n\n" : ""}import httpx  # pip install httpx

reply = httpx.post(${pythonValue(url)}, json=${pythonValue(message)}${token})
reply.raise_for_status()
print(reply.json())
`;
}

/**
 * @param {Sent} sent
 * @param {{url: string, secured: boolean}} server
 */
function typescriptRequest({ headers, message }, { url, secured }) {
  const given = Object.entries(headers).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  if (secured) given.push("Authorization: `Bearer ${process.env.MCP_TOKEN}`");
  return `const reply = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: { ${given.join(", ")} },
  body: JSON.stringify(${stringify(message, 2)}),
});
console.log(reply.status, await reply.json());
`;
}

/**
 * Write a JSON value as Python.
 * @param {any} value
 * @param {number} [level] of indentation
 * @returns {string}
 */
function pythonValue(value, level = 0) {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return stringify(value);
  const pad = "    ".repeat(level + 1);
  const parts = Array.isArray(value)
    ? value.map((each) => pythonValue(each, level + 1))
    : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${pythonValue(each, level + 1)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const line = `${open}${parts.join(", ")}${close}`;
  if (line.length <= 80 && !line.includes("\n")) return line;
  return `${open}\n${parts.map((each) => `${pad}${each},\n`).join("")}${"    ".repeat(level)}${close}`;
}

/**
 * Quote a text for a shell.
 * @param {string} text
 */
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
