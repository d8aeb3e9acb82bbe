// An MCP client (Streamable HTTP) for both protocol families. It stores nothing outside of memory.
import { accessError, eventsOf, failureOf, foreignResponse, RpcError } from "./events.js";
import { stringify } from "./json.js";
import { HANDSHAKE, headersOf, keep, MODERN, opening, Questions, withMeta } from "./protocol.js";

/**
 * @typedef {import("./protocol.js").Message} Message
 * @typedef {import("./protocol.js").Sent} Sent
 * @typedef {import("./protocol.js").Received} Received
 * @typedef {import("./protocol.js").Exchange} Exchange
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

const MOST_ROUNDS = 50;
const MOST_PAGES = 100;
const PAUSE_MS = 500;
/** How often the client tries to reach a server that is away, to go on with a call: for 15 s and more. */
const MOST_ATTEMPTS = 30;
/** Statuses of a server, or of a proxy before it, that may answer a little later. */
const LATER = [429, 502, 503, 504];
const MOST_QUESTIONS = 20;

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
    this.connection = new AbortController();
  }

  /** The end of the connection. What runs for longer than one request must end with it. */
  get closed() {
    return this.connection.signal;
  }

  /** Cancel all requests that still run, in the protocol version and session in which they began, and forget both. */
  close() {
    this.connection.abort();
    this.connection = new AbortController();
    this.session = "";
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
    const { closed } = this;
    const isModern = version === MODERN;
    const found = await (isModern ? this.request("server/discover", {}) : this.request("initialize", opening()));
    if (!isModern) await this.post({ jsonrpc: "2.0", method: "notifications/initialized" }, { signal: closed });
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
    let all = [];
    /** @type {string | undefined} */
    let cursor;
    for (let page = 0; page < MOST_PAGES; page += 1) {
      /** @type {any} */
      const found = await this.request(method, cursor === undefined ? {} : { cursor });
      all = all.concat(Array.isArray(found[key]) ? found[key] : []);
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
   * Send one request, and return its result. The request ends with the connection.
   * @param {string} method
   * @param {Record<string, any>} params
   * @param {Options} [options]
   * @returns {Promise<any>}
   */
  async request(method, params, options = {}) {
    this.lastId += 1;
    const id = this.lastId;
    const all = withMeta(this.version, params, id, options.onMessage !== undefined);
    const message = /** @type {Message} */ ({ jsonrpc: "2.0", id, method, params: all });
    const signal = options.signal ? AbortSignal.any([options.signal, this.closed]) : this.closed;
    const stop = () => {
      if (this.version === HANDSHAKE && method !== "initialize") void this.cancel(id);
    };
    signal.addEventListener("abort", stop);
    const begin = performance.now();
    try {
      return await this.answer(message, { ...options, signal });
    } finally {
      signal.removeEventListener("abort", stop);
      if (options.exchange) options.exchange.milliseconds += performance.now() - begin;
    }
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
    const isSession = this.version === HANDSHAKE && this.session !== "";
    if (response.status === 404 && isSession && message.method !== "initialize") {
      options.signal?.throwIfAborted(); // the user has chosen another version
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
        keep(reply, found);
        if (found.method && found.id !== undefined) {
          this.reply(found, options, questions.open(found.id)).catch((problem) => {
            void this.cancel(Number(message.id)); // or the call would wait for the answer
            questions.fail(problem);
          }); // meanwhile, the page shows further messages
        } else if (found.method) {
          if (found.method === "notifications/cancelled") questions.withdraw(found.params?.requestId);
          options.onMessage?.(found);
        } else if (found.id === message.id || found.id === null || found.id === undefined) {
          const failed = failureOf(found, response.status);
          if (failed) throw failed;
          return found.result;
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
    const headers = headersOf(this.version, this.session, answer, null);
    const sent = { verb: "POST", headers, message: answer };
    // Only the first answer counts. So a refused repetition means that an earlier one has arrived.
    const { response, reply, attempts } = await this.persist(sent, options);
    if (response.ok || attempts > 1 || withdrawn.aborted) return;
    for await (const { message } of eventsOf(response)) if (message) keep(reply, message);
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
    const headers = headersOf(this.version, this.session, message, options.inputSchema);
    return this.send({ verb: "POST", headers, message }, options);
  }

  /**
   * Send one HTTP request. A TypeError means that no reply has arrived; the server may have the request.
   * @param {Sent} sent
   * @param {Options} options
   */
  async send(sent, options) {
    const { verb, headers, message } = sent;
    const { closed } = this;
    options.exchange?.sent.push(sent);
    const token = this.token();
    const response = await fetch(this.url, {
      method: verb,
      headers: token ? { ...headers, Authorization: `Bearer ${token}` } : headers,
      body: message && stringify(message),
      signal: options.signal,
      credentials: "omit",
      redirect: "error",
    });
    if (!closed.aborted) this.session = response.headers.get("Mcp-Session-Id") || this.session;
    const type = response.headers.get("Content-Type") ?? "";
    const replica = response.headers.get("X-Served-By") ?? "";
    /** @type {Received} */
    const reply = { status: response.status, replica, type, messages: [], earlier: 0 };
    options.exchange?.received.push(reply);
    if (response.status === 401) throw await accessError(response);
    const isMessage = type.includes("json") || type.includes("event-stream");
    if (!isMessage && response.status !== 202) throw await foreignResponse(response);
    return { response, reply };
  }
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
