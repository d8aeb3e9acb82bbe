// What a call consists of in both protocol versions: its messages, their HTTP headers, and the questions of the server.
import { MOST_ITEMS } from "./dom.js";
import { isObject } from "./schema.js";

/**
 * @typedef {{jsonrpc: "2.0", id?: number | string, method?: string, params?: any, result?: any, error?: any}} Message
 * @typedef {{verb: string, headers: Record<string, string>, message: Message | Record<string, any> | null}} Sent one
 *   HTTP request
 *
 * @typedef {object} Received its reply
 * @property {number} status
 * @property {string} replica
 * @property {string} type
 * @property {(Message | Record<string, any>)[]} messages the last ones, at most MOST_ITEMS
 * @property {number} earlier number of the messages before these
 *
 * @typedef {object} Exchange what went over the wire for one call
 * @property {Sent[]} sent
 * @property {Received[]} received
 * @property {number} milliseconds
 */

export const MODERN = "2026-07-28";
export const HANDSHAKE = "2025-11-25";

const CLIENT = { name: "anyreplica console", version: "1" };
const CAPABILITIES = { elicitation: { form: {}, url: {} } };
const META = "io.modelcontextprotocol/";
/** The most requests of the server during one call. */
const MOST_REQUESTS = 1000;
/** @type {Record<string, string>} */
const NAMED = { "tools/call": "name", "prompts/get": "name", "resources/read": "uri" };

/** The questions of the server during a call that wait for their answers. */
export class Questions {
  constructor() {
    /** @type {Map<number | string, AbortController>} */
    this.waiting = new Map();
    this.opened = 0;
    /** @type {(problem: unknown) => void} */
    this.fail = () => {};
    /** Fails if an answer could not be sent. */
    this.failed = new Promise((_, reject) => {
      this.fail = reject;
    });
    this.failed.catch(() => {}); // nobody waits for it after the result
  }

  /**
   * Note a question, and return the signal of its end.
   * @param {number | string} id
   */
  open(id) {
    this.opened += 1;
    if (this.opened > MOST_REQUESTS) throw new Error(`The server has sent more than ${MOST_REQUESTS} requests.`);
    const question = new AbortController();
    this.waiting.set(id, question);
    return question.signal;
  }

  /**
   * End a question that the server has withdrawn (notifications/cancelled).
   * @param {number | string} id
   */
  withdraw(id) {
    this.waiting.get(id)?.abort();
  }

  /** End all questions: the call is over. */
  close() {
    for (const question of this.waiting.values()) question.abort();
  }
}

/** @returns {Exchange} */
export function newExchange() {
  return { sent: [], received: [], milliseconds: 0 };
}

/**
 * Keep a message to show it. After very many messages, only the last ones are kept.
 * @param {Received} reply
 * @param {Message} message
 */
export function keep(reply, message) {
  if (reply.messages.length === MOST_ITEMS) {
    reply.messages.shift();
    reply.earlier += 1;
  }
  reply.messages.push(message);
}

/** Return the params of `initialize`. */
export function opening() {
  return { protocolVersion: HANDSHAKE, capabilities: CAPABILITIES, clientInfo: CLIENT };
}

/**
 * Return the params of a request with what its protocol version adds.
 * @param {string} version
 * @param {Record<string, any>} params
 * @param {number} id
 * @param {boolean} wantsMessages whether the server shall send progress and log messages
 */
export function withMeta(version, params, id, wantsMessages) {
  const progress = wantsMessages ? { progressToken: id } : {};
  if (version === HANDSHAKE) return wantsMessages ? { ...params, _meta: progress } : params;
  const meta = {
    [`${META}protocolVersion`]: MODERN,
    [`${META}clientInfo`]: CLIENT,
    [`${META}clientCapabilities`]: CAPABILITIES,
    ...(wantsMessages ? { [`${META}logLevel`]: "debug", ...progress } : {}),
  };
  return { ...params, _meta: meta };
}

/**
 * Return the headers of a message, without the token.
 * @param {string} version
 * @param {string} session
 * @param {Message} message
 * @param {any} inputSchema
 * @returns {Record<string, string>}
 */
export function headersOf(version, session, { method, params }, inputSchema) {
  /** @type {Record<string, string>} */
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  if (method !== "initialize") headers["MCP-Protocol-Version"] = version;
  if (version === HANDSHAKE && session) headers["Mcp-Session-Id"] = session;
  if (version === HANDSHAKE || !method) return headers;
  headers["Mcp-Method"] = method;
  const name = NAMED[method] && params?.[NAMED[method]];
  if (name) headers["Mcp-Name"] = headerText(String(name));
  if (method === "tools/call") Object.assign(headers, repeated(inputSchema, params.arguments));
  return headers;
}

/**
 * Return the arguments that a request repeats in headers (`x-mcp-header` in the input schema of the tool).
 * @param {any} schema
 * @param {any} value
 * @returns {Record<string, string>}
 */
function repeated(schema, value) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (!isObject(schema?.properties) || !isObject(value)) return headers;
  for (const [name, each] of Object.entries(schema.properties)) {
    const argument = value[name];
    const header = each?.["x-mcp-header"];
    if (typeof header === "string" && ["string", "number", "bigint", "boolean"].includes(typeof argument)) {
      headers[`Mcp-Param-${header}`] = headerText(String(argument));
    }
    Object.assign(headers, repeated(each, argument));
  }
  return headers;
}

/**
 * Return a text as the value of a header. Other than visible ASCII, it becomes Base64 (protocol 2026-07-28).
 * @param {string} text
 */
function headerText(text) {
  if (/^[!-~]([ -~]*[!-~])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text)) return text;
  const bytes = new TextEncoder().encode(text);
  return `=?base64?${base64(bytes)}?=`;
}

/** @param {Uint8Array} bytes */
export function base64(bytes) {
  return btoa(Array.from(bytes, (each) => String.fromCharCode(each)).join(""));
}
