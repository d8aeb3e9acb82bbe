// An MCP client (Streamable HTTP) for both protocol families. It stores nothing outside of memory.
import { eventsOf } from "./events.js";
import { isObject } from "./schema.js";

/**
 * @typedef {{jsonrpc: "2.0", id?: number | string, method?: string, params?: any, result?: any, error?: any}} Message
 * @typedef {{verb: string, headers: Record<string, string>, message: Message | null}} Sent one HTTP request
 * @typedef {{status: number, replica: string, type: string, messages: Message[]}} Received its reply
 *
 * @typedef {object} Exchange what went over the wire for one call
 * @property {Sent[]} sent
 * @property {Received[]} received
 * @property {number} milliseconds
 *
 * @callback Ask
 * @param {{method: string, params: any}} request
 * @param {AbortSignal} [withdrawn] the end of the question: the server no longer waits for the answer
 * @returns {Promise<any>}
 *
 * @typedef {object} Options
 * @property {AbortSignal} [signal]
 * @property {(message: Message) => void} [onMessage] called for each notification
 * @property {Ask} [ask] answers a request of the server
 * @property {any} [inputSchema] the input schema of the tool, which may repeat arguments in headers
 * @property {Exchange} [exchange] gets what goes over the wire
 */

export const MODERN = "2026-07-28";
export const HANDSHAKE = "2025-11-25";

const CLIENT = { name: "anyreplica console", version: "1" };
const CAPABILITIES = { elicitation: { form: {}, url: {} } };
const MOST_ROUNDS = 50;
const MOST_PAGES = 100;
const PAUSE_MS = 500;
/** How often the client tries to reach a server that is away, to go on with a call: for 15 s and more. */
const MOST_ATTEMPTS = 30;
/** Statuses of a server, or of a proxy before it, that may answer a little later. */
const LATER = [429, 502, 503, 504];
const MOST_QUESTIONS = 20;
const META = "io.modelcontextprotocol/";
/** @type {Record<string, string>} */
const NAMED = { "tools/call": "name", "prompts/get": "name", "resources/read": "uri" };

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

/** @returns {Exchange} */
export function newExchange() {
  return { sent: [], received: [], milliseconds: 0 };
}

/** The questions of the server during a call that wait for their answers. */
class Questions {
  constructor() {
    /** @type {Map<number | string, AbortController>} */
    this.waiting = new Map();
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

export class Client {
  /**
   * @param {string} url
   * @param {() => string} token returns the token of the user; empty: none
   */
  constructor(url, token) {
    this.url = url;
    this.token = token;
    this.version = MODERN;
    this.session = "";
    this.lastId = 0;
    this.questions = 0;
    this.isOpen = false;
  }

  /**
   * Choose a protocol version, and return what the server says about itself.
   * @param {string} version
   * @returns {Promise<{instructions?: string, capabilities: any}>}
   */
  async connect(version) {
    this.version = version;
    this.session = "";
    this.isOpen = false;
    const params = { protocolVersion: version, capabilities: CAPABILITIES, clientInfo: CLIENT };
    const isModern = version === MODERN;
    const found = await (isModern ? this.request("server/discover", {}) : this.request("initialize", params));
    if (!isModern) await this.post({ jsonrpc: "2.0", method: "notifications/initialized" });
    this.isOpen = true;
    return found;
  }

  /**
   * Return all entries of a list, page after page.
   * @param {string} method
   * @param {string} key the field of the result that has the entries
   * @returns {Promise<any[]>}
   */
  async list(method, key) {
    /** @type {any[]} */
    const all = [];
    /** @type {string | undefined} */
    let cursor;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      /** @type {any} */
      const found = await this.request(method, cursor === undefined ? {} : { cursor });
      all.push(...(Array.isArray(found[key]) ? found[key] : []));
      cursor = found.nextCursor;
      if (cursor === undefined || cursor === null) break;
    }
    return all;
  }

  /**
   * Send a request, answer the questions of the server, and return the result.
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {Options} options
   * @returns {Promise<any>}
   */
  async call(method, params, options) {
    let round = params;
    for (let i = 0; i < MOST_ROUNDS; i += 1) {
      const result = await this.request(method, round, options);
      if (result.resultType !== "input_required") return result;
      const asked = Object.entries(result.inputRequests ?? {});
      /** @type {[string, any][]} */
      const answers = [];
      for (const [key, request] of asked) answers.push([key, await answered(options, /** @type {any} */ (request))]);
      if (!asked.length) await pause(); // the server only wants the call again, a little later
      round = { ...params, inputResponses: Object.fromEntries(answers), requestState: result.requestState };
    }
    throw new RpcError(`The server has asked ${MOST_ROUNDS} times. The page asks no more.`, null, 200);
  }

  /**
   * Send one request, and return its result.
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {Options} [options]
   * @returns {Promise<any>}
   */
  async request(method, params, options = {}) {
    this.lastId += 1;
    const id = this.lastId;
    const message = /** @type {Message} */ ({ jsonrpc: "2.0", id, method, params: this.withMeta(params, id, options) });
    const stop = () => {
      if (this.version === HANDSHAKE) void this.cancel(id);
    };
    options.signal?.addEventListener("abort", stop);
    const begin = performance.now();
    try {
      return await this.answer(message, options);
    } finally {
      options.signal?.removeEventListener("abort", stop);
      if (options.exchange) options.exchange.milliseconds += performance.now() - begin;
    }
  }

  /**
   * @param {Record<string, any>} params
   * @param {number} id
   * @param {Options} options
   */
  withMeta(params, id, options) {
    const progress = options.onMessage ? { progressToken: id } : {};
    if (this.version === HANDSHAKE) return options.onMessage ? { ...params, _meta: progress } : params;
    const meta = {
      [`${META}protocolVersion`]: MODERN,
      [`${META}clientInfo`]: CLIENT,
      [`${META}clientCapabilities`]: CAPABILITIES,
      ...(options.onMessage ? { [`${META}logLevel`]: "debug", ...progress } : {}),
    };
    return { ...params, _meta: meta };
  }

  /**
   * Tell the server that nobody waits for the result of a request. Closing the connection tells it, too.
   * @param {number} id
   */
  async cancel(id) {
    try {
      await this.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
    } catch {
      // The call has ended, or the server is away.
    }
  }

  /**
   * Send a request, and return its result. If the connection ends before it, resume the call where the server allows it.
   * @param {Message} message
   * @param {Options} options
   * @returns {Promise<any>}
   */
  async answer(message, options) {
    const questions = new Questions();
    try {
      return await this.follow(message, options, questions);
    } finally {
      questions.close();
    }
  }

  /**
   * @param {Message} message
   * @param {Options} options
   * @param {Questions} questions the questions of the server during this call
   * @returns {Promise<any>}
   */
  async follow(message, options, questions) {
    let { response, reply } = await this.post(message, options);
    if (response.status === 404 && this.session && message.method !== "initialize") {
      await this.connect(HANDSHAKE); // the session has ended; the server has not worked on the request
      ({ response, reply } = await this.post(message, options));
    }
    let lastEvent = "";
    let silent = 0; // number of the last connections without a message
    while (silent < MOST_ATTEMPTS) {
      silent += 1;
      const events = eventsOf(response);
      for (;;) {
        const { done, value } = await Promise.race([events.next(), questions.failed]);
        if (done) break;
        lastEvent = value.id || lastEvent;
        const found = value.message;
        if (!found) continue;
        silent = 0;
        reply.messages.push(found);
        if (found.method && found.id !== undefined) {
          this.reply(found, options, questions.open(found.id)).catch((problem) => {
            void this.cancel(Number(message.id)); // or the call would wait for the answer
            questions.fail(problem);
          }); // meanwhile, the page shows further messages
        } else if (found.method) {
          if (found.method === "notifications/cancelled") questions.withdraw(found.params?.requestId);
          options.onMessage?.(found);
        } else if (found.id === message.id || found.id === null || found.id === undefined) {
          if (found.error) throw new RpcError(found.error.message, found.error, response.status);
          return found.result ?? {};
        }
      }
      if (!lastEvent) break;
      ({ response, reply } = await this.resume(lastEvent, options));
    }
    throw new RpcError("The connection has ended before the result.", null, response.status);
  }

  /**
   * Answer a request of the server. If nobody can answer it, the server gets an error.
   * @param {Message} message
   * @param {Options} options
   * @param {AbortSignal} withdrawn the end of the question: the server no longer waits for the answer
   */
  async reply({ id, method, params }, options, withdrawn) {
    /** @type {Message} */
    let answer;
    this.questions += 1;
    try {
      if (this.questions > MOST_QUESTIONS) throw new Error(`More than ${MOST_QUESTIONS} questions are open.`);
      answer = { jsonrpc: "2.0", id, result: await answered(options, { method: String(method), params }, withdrawn) };
    } catch (problem) {
      if (options.signal?.aborted || withdrawn.aborted) return;
      answer = { jsonrpc: "2.0", id, error: { code: -32601, message: /** @type {Error} */ (problem).message } };
    } finally {
      this.questions -= 1;
    }
    const sent = { verb: "POST", headers: this.headersOf(answer, null), message: answer };
    // Only the first answer counts. So a refused repetition means that an earlier one has arrived.
    const { response, reply, attempts } = await this.persist(sent, options);
    if (response.ok || attempts > 1 || withdrawn.aborted) return;
    for await (const { message } of eventsOf(response)) if (message) reply.messages.push(message);
    const text = reply.messages[0]?.error?.message ?? `status ${response.status}`;
    throw new RpcError(`The server has refused the answer: ${text}`, null, response.status);
  }

  /**
   * Go on with the event stream of a call after a lost connection, at any replica (HTTP GET with Last-Event-ID).
   * @param {string} lastEvent the id of the last event
   * @param {Options} options
   */
  async resume(lastEvent, options) {
    const common = { Accept: "text/event-stream", "MCP-Protocol-Version": this.version };
    const headers = { ...common, "Mcp-Session-Id": this.session, "Last-Event-ID": lastEvent };
    await pause(); // the server may need a moment, as during an update
    return this.persist({ verb: "GET", headers, message: null }, options);
  }

  /**
   * Send one HTTP request that may arrive twice, again and again while the server is away.
   * @param {Sent} sent
   * @param {Options} options
   */
  async persist(sent, options) {
    for (let attempts = 1; ; attempts += 1) {
      try {
        const { response, reply } = await this.send(sent, options);
        if (attempts === MOST_ATTEMPTS || !LATER.includes(response.status)) return { response, reply, attempts };
      } catch (problem) {
        const isLater = problem instanceof RpcError && LATER.includes(problem.status);
        if (attempts === MOST_ATTEMPTS || !(isLater || problem instanceof TypeError)) throw problem;
      }
      await pause();
    }
  }

  /**
   * Send one message, and return the response.
   * @param {Message} message
   * @param {Options} [options]
   */
  async post(message, options = {}) {
    return this.send({ verb: "POST", headers: this.headersOf(message, options.inputSchema), message }, options);
  }

  /**
   * Send one HTTP request. A TypeError means that no reply has arrived; the server may have the request.
   * @param {Sent} sent
   * @param {Options} options
   */
  async send(sent, options) {
    const { verb, headers, message } = sent;
    options.exchange?.sent.push(sent);
    const token = this.token();
    const response = await fetch(this.url, {
      method: verb,
      headers: token ? { ...headers, Authorization: `Bearer ${token}` } : headers,
      body: message && JSON.stringify(message),
      signal: options.signal,
      credentials: "omit",
      redirect: "error",
    });
    this.session = response.headers.get("Mcp-Session-Id") || this.session;
    const type = response.headers.get("Content-Type") ?? "";
    const replica = response.headers.get("X-Served-By") ?? "";
    /** @type {Received} */
    const reply = { status: response.status, replica, type, messages: [] };
    options.exchange?.received.push(reply);
    if (response.status === 401) {
      throw new AccessError(await errorText(response), response.headers.get("WWW-Authenticate") ?? "");
    }
    if (!type.includes("json") && !type.includes("event-stream") && response.status !== 202) {
      throw new RpcError(`The server has answered with the status ${response.status}.`, null, response.status);
    }
    return { response, reply };
  }

  /**
   * Return the headers of a message, without the token.
   * @param {Message} message
   * @param {any} inputSchema
   * @returns {Record<string, string>}
   */
  headersOf({ method, params }, inputSchema) {
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
    if (method !== "initialize") headers["MCP-Protocol-Version"] = this.version;
    if (this.version === HANDSHAKE && this.session) headers["Mcp-Session-Id"] = this.session;
    if (this.version === HANDSHAKE || !method) return headers;
    headers["Mcp-Method"] = method;
    const name = NAMED[method] && params?.[NAMED[method]];
    if (name) headers["Mcp-Name"] = headerText(name);
    if (method === "tools/call") Object.assign(headers, repeated(inputSchema, params.arguments));
    return headers;
  }
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
    if (typeof header === "string" && ["string", "number", "boolean"].includes(typeof argument)) {
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

/**
 * @param {Options} options
 * @param {{method: string, params: any}} request
 * @param {AbortSignal} [withdrawn]
 */
async function answered(options, request, withdrawn) {
  if (!options.ask) {
    throw new RpcError(`The server has sent ${request.method}, and nobody can answer it here.`, null, 200);
  }
  return options.ask(request, withdrawn);
}

/** @returns {Promise<void>} */
function pause() {
  return new Promise((resolve) => {
    setTimeout(resolve, PAUSE_MS);
  });
}

/**
 * @param {Response} response
 * @returns {Promise<string>}
 */
async function errorText(response) {
  try {
    const body = await response.json();
    return body.error?.message ?? body.message ?? body.error_description ?? "The server wants a key.";
  } catch {
    return "The server wants a key.";
  }
}
