// One call: its form, its progress, its result, what went over the wire, and the call in code.
import { block, h, MOST_ITEMS } from "./dom.js";
import { AccessError, RpcError } from "./events.js";
import { makeForm } from "./form.js";
import { FieldError } from "./inputs.js";
import { isNumber, pretty } from "./json.js";
import { newExchange } from "./protocol.js";
import { agreed, asker } from "./questions.js";
import { snippets } from "./snippets.js";

/**
 * @typedef {import("./client.js").Client} Client
 * @typedef {import("./protocol.js").Exchange} Exchange
 * @typedef {import("./protocol.js").Message} Message
 *
 * @typedef {object} Page what a view uses of the page
 * @property {Client} client
 * @property {string} url the URL of the MCP endpoint
 * @property {boolean} confirms whether the page asks before a call that may change something
 * @property {() => boolean} isSecured whether the page sends a token
 * @property {(error: AccessError) => void} onAccess shows how to get access
 * @property {(uri: string) => string} read shows a resource; returns why it cannot, or an empty text
 *
 * @typedef {object} Component what a caller calls
 * @property {string} method
 * @property {string} verb the text of the button
 * @property {any} schema the schema of its arguments
 * @property {(values: any) => any} params returns the params of the request
 * @property {(result: any) => HTMLElement} show
 * @property {any} [inputSchema] of a tool
 * @property {boolean} [writes] whether the call may change something
 * @property {(name: string, input: any) => void} [onInput]
 */

const DRAW_EVERY_MS = 100;

/**
 * Make the view of a call.
 * @param {Page} page
 * @param {Component} component
 * @returns {HTMLElement}
 */
export function callView(page, component) {
  const form = makeForm(component.schema, component.onInput);
  const button = h("button", { type: "button", onclick: () => void start() }, component.verb);
  const stop = () => stopper?.abort();
  const cancel = h("button", { type: "button", class: "quiet", hidden: true, onclick: stop }, "Cancel");
  const log = messageLog();
  const questions = h("div");
  const status = h("p", { class: "status", role: "status" });
  const output = h("div", { class: "output" });
  /** @type {AbortController | null} */
  let stopper = null;
  let isConfirmed = !component.writes || !page.confirms;

  /** Read the form and call, unless the user must confirm the call first. */
  async function start() {
    if (stopper) return;
    let values;
    try {
      values = form.read();
    } catch (problem) {
      if (problem instanceof FieldError) return; // the form shows what is wrong
      throw problem;
    }
    if (isConfirmed) {
      await run(values);
    } else if (await agreed(questions, button, "call it")) {
      isConfirmed = true; // the page asks once for each tool
      await start(); // the user may have changed the form
    }
  }

  /** @param {any} values */
  async function run(values) {
    stopper = new AbortController();
    const signal = AbortSignal.any([stopper.signal, page.client.closed]);
    const exchange = newExchange();
    const { method, inputSchema } = component;
    button.setAttribute("aria-disabled", "true"); // a button with `disabled` would lose the focus
    cancel.hidden = false;
    output.replaceChildren();
    log.clear();
    status.textContent = "Calling …";
    /** @type {any} */
    let params = {};
    let shown;
    try {
      params = component.params(values);
      const ask = asker(questions, signal);
      const options = { signal, ask, onMessage: log.add, exchange, inputSchema };
      shown = component.show(await page.client.call(method, params, options));
    } catch (problem) {
      if (problem instanceof AccessError) page.onAccess(problem);
      shown = failure(problem, signal.aborted);
    }
    stopper = null;
    log.draw();
    button.removeAttribute("aria-disabled");
    if (document.activeElement === cancel) button.focus();
    cancel.hidden = true;
    questions.replaceChildren();
    status.textContent = summary(exchange);
    const details = exchange.sent.length ? [wire(exchange), code(page, exchange, method, params)] : [];
    output.replaceChildren(shown, ...details);
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault(); // or this key could also press the button that gets the focus
    void start();
  }

  const buttons = h("p", { class: "buttons" }, button, " ", cancel, h("small", {}, " Ctrl+Enter"));
  return h("div", { class: "call", onkeydown: onKey }, form.element, buttons, questions, log.element, status, output);
}

/**
 * The progress and log messages of a call. The page draws them ten times per second, and only the last ones.
 * @returns {{element: HTMLElement, add: (message: Message) => void, draw: () => void, clear: () => void}}
 */
function messageLog() {
  const earlier = h("p", { class: "hint" });
  const lines = h("ol", { class: "log", "aria-live": "polite", "aria-label": "Progress and log messages" });
  /** @type {Message[]} the messages that are not drawn yet */
  let waiting = [];
  let count = 0;
  let timer = 0;

  function draw() {
    clearTimeout(timer);
    timer = 0;
    lines.append(...waiting.map(safeLine));
    waiting = [];
    while (lines.childElementCount > MOST_ITEMS) lines.firstElementChild?.remove();
    earlier.textContent = count > MOST_ITEMS ? `… ${count - MOST_ITEMS} more messages, before these:` : "";
  }

  return {
    element: h("div", {}, earlier, lines),
    add(message) {
      count += 1;
      if (waiting.length === MOST_ITEMS) waiting.shift();
      waiting.push(message);
      timer ||= setTimeout(draw, DRAW_EVERY_MS);
    },
    draw,
    clear() {
      waiting = [];
      count = 0;
      lines.replaceChildren();
      draw();
    },
  };
}

/**
 * Show a notification of the server, also if its values are of other types than the protocol says.
 * @param {Message} message
 * @returns {HTMLElement}
 */
function safeLine(message) {
  try {
    return messageLine(message);
  } catch {
    return h("li", {}, pretty(message));
  }
}

/**
 * @param {Message} message
 * @returns {HTMLElement}
 */
function messageLine({ method, params }) {
  if (method === "notifications/progress") {
    const { progress, total, message } = params ?? {};
    const hasTotal = isNumber(total);
    const bar = hasTotal
      ? h("progress", { max: Number(total), value: Number(progress), "aria-label": "Progress" })
      : null;
    return h("li", {}, bar, ` ${progress}${hasTotal ? ` of ${total}` : ""} ${message ?? ""}`);
  }
  if (method === "notifications/message") {
    const { level, data, logger } = params ?? {};
    const text = typeof data === "string" ? data : (data?.msg ?? pretty(data));
    return h("li", { class: "log-line" }, h("b", {}, String(level)), ` ${logger ? `${logger}: ` : ""}${text}`);
  }
  return h("li", {}, String(method));
}

/**
 * @param {unknown} problem
 * @param {boolean} isCancelled
 */
function failure(problem, isCancelled) {
  if (isCancelled) return h("p", { class: "result" }, "You have cancelled the call.");
  const { message } = /** @type {Error} */ (problem);
  const error = problem instanceof RpcError ? problem.error : null;
  const code = error ? ` (code ${error.code})` : "";
  const data = error?.data === undefined ? null : block(pretty(error.data), "Error");
  const text = problem instanceof TypeError ? `No answer from the server: ${message}` : `${message}${code}`;
  return h("div", { class: "result failed" }, h("p", { class: "error", role: "alert" }, text), data);
}

/**
 * Say which replicas have answered, and how long that took.
 * @param {Exchange} exchange
 */
export function summary({ received, milliseconds }) {
  const replicas = [...new Set(received.map(({ replica }) => replica).filter(Boolean))];
  const time = milliseconds < 10 ? milliseconds.toFixed(1) : milliseconds.toFixed(0);
  return `${replicas.length ? `Served by replica ${replicas.join(", ")} in` : "After"} ${time} ms`;
}

/**
 * Show the requests and replies as they went over the wire.
 * @param {Exchange} exchange
 */
export function wire({ sent, received }) {
  const requests = sent.map(({ verb, headers, message }) => {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    return [`${verb}\n${lines.join("\n")}`, ...(message ? [pretty(message)] : [])].join("\n\n");
  });
  const replies = received.map(({ status, type, replica, messages, earlier }) => {
    const head = [`HTTP ${status}`, type && `Content-Type: ${type}`, replica && `X-Served-By: ${replica}`];
    const body = [earlier && `… ${earlier} more messages, before these:`, ...messages.map(pretty)];
    return `${head.filter(Boolean).join("\n")}\n\n${body.filter(Boolean).join("\n\n")}`;
  });
  const asked = [h("h3", {}, "Requests"), block(requests.join("\n\n"), "Requests")];
  const answered = [h("h3", {}, "Replies"), block(replies.join("\n\n"), "Replies")];
  return h("details", {}, h("summary", {}, "Over the wire"), asked, answered);
}

/**
 * @param {Page} page
 * @param {Exchange} exchange
 * @param {string} method
 * @param {any} params
 */
function code(page, { sent }, method, params) {
  const server = { url: page.url, secured: page.isSecured() };
  return h(
    "details",
    {},
    h("summary", {}, "Copy as curl, Python or TypeScript"),
    snippets(sent[0], { method, params }, server),
  );
}
