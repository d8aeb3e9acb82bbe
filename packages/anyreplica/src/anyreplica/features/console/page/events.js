// Reads the replies of the server: an event stream, or one JSON text. A reply of a proxy gets a clear error.
import { parseJson, stringify } from "./json.js";
import { isObject } from "./schema.js";

/**
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {{id: string, message: Message | null}} StreamEvent of a reply; JSON is one event without an id
 */

const BLANK_LINE = /\r?\n\r?\n/;
/** The most characters of a reply, or of one event. The memory of a browser ends, too. */
const MOST_READ = 64 * 1024 * 1024;
/** The most characters of a reply that an error shows. */
const MOST_SHOWN = 200;
/** How long the page may read messages before the browser draws, and reacts to the user. */
const MOST_BUSY_MS = 50;

/** The server has refused the credentials, or wants some. */
export class AccessError extends Error {
  /**
   * @param {string} message
   * @param {string} challenge the value of WWW-Authenticate
   */
  constructor(message, challenge) {
    super(message);
    this.challenge = challenge;
  }
}

/** The server has answered with an error. */
export class RpcError extends Error {
  /**
   * @param {string} message
   * @param {any} error the JSON-RPC error, or null
   * @param {number} status the HTTP status
   */
  constructor(message, error, status) {
    super(message);
    this.error = error;
    this.status = status;
  }
}

/**
 * Return the error of a reply that is not one of an MCP server, for example the error page of a proxy.
 * @param {number} status
 * @param {string} text the reply
 */
export function foreignReply(status, text) {
  const begin = text.trim().slice(0, MOST_SHOWN);
  const source = "did not come from the MCP server, but maybe from a proxy in front of it";
  const shown = begin ? `It begins: ${begin}` : "It is empty.";
  return new RpcError(`The reply with the status ${status} ${source}. ${shown}`, null, status);
}

/**
 * Return the error of a response that is neither JSON nor an event stream.
 * @param {Response} response
 */
export async function foreignResponse(response) {
  return foreignReply(response.status, await readText(response, MOST_SHOWN * 10).catch(() => ""));
}

/**
 * Return the error that a reply to a request has; null if it has a result.
 * @param {any} message
 * @param {number} status
 */
export function failureOf(message, status) {
  if (isObject(message.error)) return new RpcError(String(message.error.message), message.error, status);
  if (isObject(message.result)) return null;
  return refusalOf(message, status);
}

/**
 * Return the error of a reply that is no JSON-RPC message. A replica names the error, and says more in a text.
 * @param {any} body
 * @param {number} status
 */
function refusalOf(body, status) {
  const text = body.message ?? body.error_description;
  const isOurs = typeof body.error === "string" && typeof text === "string";
  return isOurs ? new RpcError(text, null, status) : foreignReply(status, stringify(body));
}

/**
 * Return the JSON of a response.
 * @param {Response} response
 * @returns {Promise<Record<string, any>>}
 */
async function readJson(response) {
  const text = await readText(response, MOST_READ);
  if (text.length > MOST_READ) throw tooLarge(response.status);
  let value;
  try {
    value = parseJson(text);
  } catch {
    throw foreignReply(response.status, text);
  }
  if (!isObject(value)) throw foreignReply(response.status, text);
  return value;
}

/**
 * Return the JSON of a response of another route of the server, such as `/jobs`.
 * @param {Response} response
 * @returns {Promise<Record<string, any>>}
 */
export async function routeJson(response) {
  if (response.status === 401) throw await accessError(response);
  if (response.status === 204) return {};
  const body = await readJson(response);
  if (response.ok || response.status === 409) return body; // 409: a job has no result yet
  throw refusalOf(body, response.status);
}

/**
 * Return the error of a response that wants other credentials.
 * @param {Response} response
 */
export async function accessError(response) {
  const body = await readJson(response).catch(() => /** @type {Record<string, any>} */ ({}));
  const text = body.error?.message ?? body.message ?? body.error_description ?? "The server wants a key.";
  return new AccessError(String(text), response.headers.get("WWW-Authenticate") ?? "");
}

/**
 * Return the text of a response. If it has more characters than a limit, return only its beginning, which has more, too.
 * @param {Response} response
 * @param {number} most
 */
async function readText(response, most) {
  if (!response.body) return "";
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (text.length <= most) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text;
}

/** @param {number} status */
function tooLarge(status) {
  return new RpcError(`The reply has more than ${MOST_READ} characters. The page does not read it.`, null, status);
}

/**
 * Return the events of a response, as they arrive. A broken connection ends them like any other end.
 * @param {Response} response
 * @returns {AsyncGenerator<StreamEvent>}
 */
export async function* eventsOf(response) {
  if (!(response.headers.get("Content-Type") ?? "").includes("event-stream")) {
    if (response.status !== 202) yield { id: "", message: /** @type {any} */ (await readJson(response)) };
    return;
  }
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let end = "";
  let busySince = performance.now();
  for (;;) {
    const { done, value } = await reader.read().catch(broken);
    if (done) return; // what is left is not a whole event
    const text = decoder.decode(value, { stream: true });
    const isWhole = BLANK_LINE.test(end + text);
    end = (end + text).slice(-3);
    rest += text;
    if (rest.length > MOST_READ) {
      await reader.cancel();
      throw tooLarge(response.status);
    }
    if (!isWhole) continue; // so a large event, which arrives in many parts, is searched only once
    const events = rest.split(BLANK_LINE);
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = eventField(event, "data");
      yield { id: eventField(event, "id"), message: data ? eventMessage(data, response.status) : null };
      if (performance.now() - busySince < MOST_BUSY_MS) continue;
      await otherWork();
      busySince = performance.now();
    }
  }
}

/**
 * @param {string} data
 * @param {number} status
 * @returns {Message}
 */
function eventMessage(data, status) {
  try {
    const found = parseJson(data);
    if (isObject(found)) return /** @type {any} */ (found);
  } catch {
    // It is no JSON.
  }
  throw foreignReply(status, data);
}

/**
 * Let the browser draw, and react to the user. Without it, a stream with very many messages would hold up the page.
 * @returns {Promise<void>}
 */
function otherWork() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel(); // a timer would be late in a tab that nobody sees
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/**
 * @param {Error} problem
 * @returns {ReadableStreamReadResult<Uint8Array>}
 */
function broken(problem) {
  if (problem.name === "AbortError") throw problem; // the user has cancelled the call
  return { done: true, value: undefined };
}

/**
 * @param {string} event
 * @param {string} name
 */
function eventField(event, name) {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith(`${name}:`));
  return lines.map((line) => line.slice(name.length + 1).trim()).join("\n");
}
