// The swarm: which replicas are known, and which of them answer calls how fast.
import { chart, verdict } from "./chart.js";
import { h, MOST_ITEMS, newId, table } from "./dom.js";
import { routeJson } from "./events.js";
import { newExchange } from "./protocol.js";
import { mayChange } from "./questions.js";

/**
 * @typedef {import("./call.js").Page} Page
 *
 * @typedef {object} Known what a replica says about itself
 * @property {string} name
 * @property {string} version
 * @property {string} status
 * @property {number} started
 * @property {number} uptime_seconds
 * @property {number} in_flight
 * @property {number} seconds_ago
 *
 * @typedef {import("./chart.js").Answer} Answer
 */

const EVERY_MS = 1000;
const LIST_ANSWER_MS = 5000;
const SILENT_SECONDS = 3;
const NEW_SECONDS = 15;
const KEPT_MS = 20_000;
/** A browser opens six connections to a host. More calls at once would only wait in the browser. */
const CONNECTIONS = 6;
const MOST_CALLS = 5000;

/**
 * @param {Page} page
 * @param {string} url of the route /replicas
 * @param {any[]} tools
 * @returns {HTMLElement}
 */
export function swarmView(page, url, tools) {
  return h("div", {}, replicasPart(page, url), callsPart(page, tools));
}

/**
 * The replicas that are known, refreshed every second. A replica that has ended stays for a while, faded.
 * @param {Page} page
 * @param {string} url
 */
function replicasPart(page, url) {
  const rows = h("tbody");
  const status = h("p", { class: "hint", role: "status" }, "Looking for the replicas …");
  /** @type {Map<string, {known: Known, at: number}>} */
  const seen = new Map();

  async function refresh() {
    const token = page.client.token();
    const headers = token ? { Authorization: `Bearer ${token}` } : undefined;
    try {
      const signal = AbortSignal.timeout(LIST_ANSWER_MS);
      const { replicas } = await routeJson(await fetch(url, { credentials: "omit", headers, signal }));
      const listed = /** @type {Known[]} */ (Array.isArray(replicas) ? replicas.slice(0, MOST_ITEMS) : []);
      for (const known of listed) seen.set(`${known.name} ${known.started}`, { known, at: Date.now() });
      draw();
    } catch (problem) {
      status.textContent = `The replicas cannot be listed now: ${/** @type {Error} */ (problem).message}`;
    }
  }

  function draw() {
    for (const [key, { at }] of seen) if (Date.now() - at > KEPT_MS) seen.delete(key);
    const sorted = [...seen.values()].sort((one, other) => one.known.started - other.known.started);
    const all = sorted.slice(-MOST_ITEMS);
    rows.replaceChildren(...all.map(({ known, at }) => row(known, Date.now() - at > 2 * EVERY_MS)));
    const alive = all.filter(({ known, at }) => stateOf(known, Date.now() - at > 2 * EVERY_MS) === "ready").length;
    const text = `${alive} ${alive === 1 ? "replica is" : "replicas are"} ready.`;
    if (status.textContent !== text) status.textContent = text;
  }

  void refresh();
  const element = h("section", {}, h("h2", {}, "Replicas"), status, table("Known replicas", COLUMNS, rows));
  setInterval(() => {
    if (element.offsetParent && !document.hidden) void refresh();
  }, EVERY_MS);
  return element;
}

const COLUMNS = ["Replica", "Version", "Status", "Uptime", "Requests in flight"];

/**
 * @param {Known} known
 * @param {boolean} isGone whether the list no longer has it
 */
function stateOf({ status, seconds_ago: age }, isGone) {
  if (isGone) return "gone";
  return status === "ready" && age > SILENT_SECONDS ? "silent" : status;
}

/**
 * @param {Known} known
 * @param {boolean} isGone
 */
function row(known, isGone) {
  const state = stateOf(known, isGone);
  const seconds = Math.round(known.uptime_seconds + known.seconds_ago);
  const isNew = state === "ready" && seconds < NEW_SECONDS;
  const requests = state === "ready" ? known.in_flight : "";
  const cells = [known.version, isNew ? "ready, new" : state, duration(seconds), requests];
  const name = h("th", { scope: "row" }, h("code", {}, known.name));
  return h(
    "tr",
    { class: `replica ${isNew ? "new" : state}` },
    name,
    cells.map((each) => h("td", {}, each)),
  );
}

/** @param {number} seconds */
function duration(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/**
 * Sends many calls, and draws which replica answered each of them, and how fast.
 * @param {Page} page
 * @param {any[]} tools
 */
function callsPart(page, tools) {
  const readOnly = tools.filter((tool) => !mayChange(tool));
  const isEcho = (/** @type {any} */ tool) => tool.name === "echo" && typeOfMessage(tool) === "string";
  const isEmpty = (/** @type {any} */ tool) => !isEcho(tool) && !tool.inputSchema?.required?.length;
  const calls = [
    ...readOnly.filter(isEcho).map(({ name }) => ({ name, arguments: { message: "hello" } })),
    ...readOnly.filter(isEmpty).map(({ name }) => ({ name, arguments: {} })),
  ];
  /** @type {{title: string, method: string, params: any}[]} */
  const kinds = calls.map((params) => ({ title: `Call ${params.name}`, method: "tools/call", params }));
  kinds.splice(MOST_ITEMS);
  kinds.push({ title: "List the tools", method: "tools/list", params: {} });
  const options = kinds.map(({ title }, index) => h("option", { value: index }, title));
  const what = h("select", { id: newId("what") }, options);
  const count = h("input", { id: newId("count"), type: "number", value: 300, min: 1, max: MOST_CALLS });
  const wanted = () => Math.min(MOST_CALLS, Math.max(1, Math.floor(Number(count.value)) || 1));
  const toggle = () => (stopper ? stopper.abort() : void run());
  const send = h("button", { type: "button", onclick: toggle }, "Send 300 calls");
  count.addEventListener("input", () => {
    if (!stopper) send.textContent = `Send ${wanted()} calls`;
  });
  const status = h("p", { class: "status", role: "status" });
  const drawing = h("div");
  /** @type {AbortController | null} */
  let stopper = null;

  async function run() {
    stopper = new AbortController();
    send.textContent = "Stop";
    const total = wanted();
    status.textContent = `Sending ${total} calls …`;
    drawing.replaceChildren();
    /** @type {Answer[]} */
    const answers = [];
    const begin = performance.now();
    const { method, params } = kinds[Number(what.value)];
    let sent = 0;
    const signal = AbortSignal.any([stopper.signal, page.client.closed]);

    /** Send one call after the other. The browser decides how many connections they use. */
    async function sender() {
      while (sent < total && !signal.aborted) {
        sent += 1;
        const answer = await oneCall(page, method, params, begin, signal);
        if (!signal.aborted) answers.push(answer); // a call that the user has stopped has not failed
      }
    }

    const paint = setInterval(() => drawing.replaceChildren(chart(answers)), 200);
    await Promise.all(Array.from({ length: Math.min(CONNECTIONS, total) }, sender));
    clearInterval(paint);
    stopper = null;
    send.textContent = `Send ${wanted()} calls`;
    drawing.replaceChildren(chart(answers));
    status.textContent = verdict(answers, performance.now() - begin);
  }

  const choice = h(
    "div",
    { class: "options" },
    h("div", {}, h("label", { for: what.id }, "What to send"), what),
    h("div", {}, h("label", { for: count.id }, "How often"), count),
    send,
  );
  const some = "Only tools that are marked as read-only (readOnlyHint) can be called here.";
  const none = "No tool that needs no arguments is marked as read-only (readOnlyHint), so no tool can be called here.";
  const hint = h("p", { class: "hint" }, calls.length ? some : none);
  return h("section", {}, h("h2", {}, "Calls"), hint, choice, status, drawing);
}

/** @param {any} tool */
function typeOfMessage({ inputSchema }) {
  return inputSchema?.properties?.message?.type;
}

/**
 * @param {Page} page
 * @param {string} method
 * @param {any} params
 * @param {number} begin
 * @param {AbortSignal} signal
 * @returns {Promise<Answer>}
 */
async function oneCall(page, method, params, begin, signal) {
  const exchange = newExchange();
  let failed = "";
  try {
    await page.client.request(method, params, { exchange, signal });
  } catch (problem) {
    failed = /** @type {Error} */ (problem).message || "failed";
  }
  const at = performance.now() - begin;
  return { replica: exchange.received[0]?.replica ?? "", at, milliseconds: exchange.milliseconds, failed };
}
