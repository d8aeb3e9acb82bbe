// One call: its form, its progress, its result, what went over the wire, and the call in code.
import { AccessError, newExchange, RpcError } from "./client.js";
import { block, h, pretty } from "./dom.js";
import { FieldError, makeForm } from "./form.js";
import { asker } from "./questions.js";
import { snippets } from "./snippets.js";

/**
 * @typedef {import("./client.js").Client} Client
 * @typedef {import("./client.js").Exchange} Exchange
 * @typedef {import("./client.js").Message} Message
 *
 * @typedef {object} Page what a view uses of the page
 * @property {Client} client
 * @property {string} url the URL of the MCP endpoint
 * @property {boolean} confirms whether the page asks before a call that may change something
 * @property {() => boolean} isSecured whether the page sends a token
 * @property {(error: AccessError) => void} onAccess shows how to get access
 * @property {(uri: string) => void} read shows a resource
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

const MOST_LINES = 500;

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
  const log = h("ol", { class: "log", "aria-live": "polite", "aria-label": "Progress and log messages" });
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
    if (isConfirmed) await run(values);
    else confirm();
  }

  /** Ask whether to call. The page asks once for each tool. */
  function confirm() {
    const text = "This tool is not marked as read-only, so it may change something. Call it?";
    const yes = h("button", { type: "button", onclick: () => end(true) }, "Yes, call it");
    const no = h("button", { type: "button", class: "quiet", onclick: () => end(false) }, "No");
    const inside = [h("p", {}, text), h("p", {}, yes, " ", no)];
    const names = { role: "group", "aria-label": text, tabindex: -1 };
    const question = h("section", { class: "question", onkeydown: onEscape, ...names }, inside);
    questions.replaceChildren(question);
    question.focus(); // not the button: a key that is held down would press it
    /** @param {KeyboardEvent} event */
    function onEscape(event) {
      if (event.key === "Escape") end(false);
    }
    /** @param {boolean} isYes */
    function end(isYes) {
      questions.replaceChildren();
      button.focus();
      isConfirmed = isYes;
      if (isYes) void start();
    }
  }

  /** @param {any} values */
  async function run(values) {
    stopper = new AbortController();
    const { signal } = stopper;
    const exchange = newExchange();
    const { method, inputSchema } = component;
    button.setAttribute("aria-disabled", "true"); // a button with `disabled` would lose the focus
    cancel.hidden = false;
    output.replaceChildren();
    log.replaceChildren();
    status.textContent = "Calling …";
    /** @type {any} */
    let params = {};
    let shown;
    try {
      params = component.params(values);
      const ask = asker(questions, signal);
      const onMessage = (/** @type {Message} */ each) => note(log, each);
      const options = { signal, ask, onMessage, exchange, inputSchema };
      shown = component.show(await page.client.call(method, params, options));
    } catch (problem) {
      if (problem instanceof AccessError) page.onAccess(problem);
      shown = failure(problem, signal.aborted);
    }
    stopper = null;
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
  return h("div", { class: "call", onkeydown: onKey }, form.element, buttons, questions, log, status, output);
}

/**
 * Show a notification of the server.
 * @param {HTMLElement} log
 * @param {Message} message
 */
function note(log, { method, params }) {
  if (log.childElementCount >= MOST_LINES) log.firstElementChild?.remove();
  if (method === "notifications/progress") {
    const { progress, total, message } = params ?? {};
    const hasTotal = typeof total === "number";
    const bar = hasTotal ? h("progress", { max: total, value: progress, "aria-label": "Progress" }) : null;
    log.append(h("li", {}, bar, ` ${progress}${hasTotal ? ` of ${total}` : ""} ${message ?? ""}`));
  } else if (method === "notifications/message") {
    const { level, data, logger } = params ?? {};
    const text = typeof data === "string" ? data : (data?.msg ?? pretty(data));
    log.append(h("li", { class: "log-line" }, h("b", {}, String(level)), ` ${logger ? `${logger}: ` : ""}${text}`));
  } else {
    log.append(h("li", {}, String(method)));
  }
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
  return h("div", { class: "result failed" }, h("p", { class: "error" }, text), data);
}

/** @param {Exchange} exchange */
function summary({ received, milliseconds }) {
  const replicas = [...new Set(received.map(({ replica }) => replica).filter(Boolean))];
  const time = milliseconds < 10 ? milliseconds.toFixed(1) : milliseconds.toFixed(0);
  return `${replicas.length ? `Served by replica ${replicas.join(", ")} in` : "After"} ${time} ms`;
}

/** @param {Exchange} exchange */
function wire({ sent, received }) {
  const requests = sent.map(({ verb, headers, message }) => {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    return [`${verb}\n${lines.join("\n")}`, ...(message ? [pretty(message)] : [])].join("\n\n");
  });
  const replies = received.map(({ status, type, replica, messages }) => {
    const head = [`HTTP ${status}`, type && `Content-Type: ${type}`, replica && `X-Served-By: ${replica}`];
    return `${head.filter(Boolean).join("\n")}\n\n${messages.map(pretty).join("\n\n")}`;
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
