// Jobs: start one, follow its progress, read its result, cancel it. The page uses the routes below /jobs.
import { summary, wire } from "./call.js";
import { entryList } from "./components.js";
import { block, h, MOST_ITEMS, shortened, table } from "./dom.js";
import { AccessError, routeJson } from "./events.js";
import { makeForm } from "./form.js";
import { FieldError } from "./inputs.js";
import { pretty, stringify } from "./json.js";
import { newExchange } from "./protocol.js";
import { agreed, mayChange } from "./questions.js";
import { routeSnippets } from "./snippets.js";

/**
 * @typedef {import("./call.js").Page} Page
 * @typedef {import("./protocol.js").Exchange} Exchange
 */

const REFRESH_MS = 1000;
const ANSWER_MS = 5000;
/** The mark of a tool that runs as a job, in its `_meta`. */
const MARK = "anyreplica/job";

/**
 * Return the view of the jobs; null if the server has none.
 * @param {Page} page
 * @param {string} url of the route /jobs
 * @param {any[]} tools
 * @returns {{element: HTMLElement, refresh: () => void} | null}
 */
export function jobsView(page, url, tools) {
  const jobs = tools.filter((tool) => tool._meta?.[MARK] === true);
  if (!jobs.length) return null;
  const error = h("p", { class: "error", role: "alert" });
  const away = h("p", { class: "error", role: "alert" });
  const rows = h("tbody");
  /** @type {Map<string, HTMLElement>} */
  const results = new Map();
  let drawn = "";

  /**
   * @param {string} path
   * @param {{method?: string, headers?: Record<string, string>, body?: string, signal?: AbortSignal}} [options]
   * @param {Exchange} [exchange] notes what went over the wire
   */
  async function ask(path, options = {}, exchange = newExchange()) {
    /** @type {Record<string, string>} */
    const headers = { ...options.headers };
    const token = page.client.token();
    if (token) headers.Authorization = `Bearer ${token}`;
    const begin = performance.now();
    const reply = await fetch(`${url}${path}`, { credentials: "omit", ...options, headers });
    const [replica, type] = ["X-Served-By", "Content-Type"].map((name) => reply.headers.get(name) ?? "");
    const received = { status: reply.status, replica, type, messages: /** @type {any[]} */ ([]), earlier: 0 };
    exchange.received.push(received);
    const body = await routeJson(reply);
    exchange.milliseconds = performance.now() - begin;
    received.messages.push(body);
    return body;
  }

  /**
   * Do some work, and show its error. The error stays until the next work with the same place.
   * @param {() => Promise<void>} work
   * @param {HTMLElement} [place]
   */
  async function trying(work, place = error) {
    let text = "";
    try {
      await work();
    } catch (problem) {
      if (problem instanceof AccessError) page.onAccess(problem);
      if (!(problem instanceof FieldError)) text = /** @type {Error} */ (problem).message; // a form shows its own
    }
    text = shortened(text);
    if (place.textContent !== text) place.textContent = text;
  }

  /** Draw the jobs again if they have changed. The focus stays on the button of the same job. */
  async function refresh() {
    const { jobs: all } = await ask("?limit=50", { signal: AbortSignal.timeout(ANSWER_MS) });
    const found = Array.isArray(all) ? all.slice(0, MOST_ITEMS) : [];
    const text = stringify([found, results.size]);
    if (text === drawn) return;
    drawn = text;
    const { id } = /** @type {Element} */ (document.activeElement ?? document.body);
    const hasFocus = rows.contains(document.activeElement);
    rows.replaceChildren(...found.map(row));
    if (hasFocus && id) document.getElementById(id)?.focus();
  }

  /** @param {any} job */
  function row(job) {
    const { id, job: name, status, progress, message, error: reason } = job;
    const ended = ["completed", "failed", "cancelled"].includes(status);
    const bar = h("progress", { max: 100, value: progress ?? 0, "aria-label": `Progress of ${name}` });
    const onclick = () => void trying(() => (ended ? showResult(id) : stop(id)));
    const text = `${ended ? "Result of" : "Cancel"} ${name}`;
    const button = h("button", { type: "button", class: "quiet", id: `job-${id}`, onclick }, text);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("code", {}, name), h("br"), h("small", {}, id)),
      h("td", {}, status),
      h("td", {}, bar, ` ${reason || message || ""}`),
      h("td", {}, button, results.get(id)),
    );
  }

  /** @param {string} id */
  async function showResult(id) {
    results.set(id, block(pretty(await ask(`/${encodeURIComponent(id)}/result`)), "Result of the job"));
    await refresh();
  }

  /** @param {string} id */
  async function stop(id) {
    await ask(`/${encodeURIComponent(id)}`, { method: "DELETE" });
    await refresh();
  }

  /** @param {any} tool */
  function entry(tool) {
    const { name, description, inputSchema } = tool;
    const view = () => {
      const form = makeForm(inputSchema);
      const question = h("div");
      const said = h("p", { class: "status", role: "status" });
      const details = h("div", { class: "output" });
      let isConfirmed = !page.confirms || !mayChange(tool);
      /** @returns {Promise<void>} */
      const submit = async () => {
        const params = form.read(); // before the question: it shows what is wrong
        if (isConfirmed) {
          const headers = { "Content-Type": "application/json" };
          const message = { job: name, params };
          const exchange = newExchange();
          const sent = { verb: `POST ${new URL(url).pathname}`, headers, message };
          exchange.sent.push(sent);
          details.replaceChildren();
          const { id } = await ask("", { method: "POST", headers, body: stringify(message) }, exchange);
          said.textContent = `${summary(exchange)}. The job ${id} is in the list below.`;
          details.replaceChildren(wire(exchange), code(sent));
          await refresh();
        } else if (await agreed(question, start, "start it")) {
          isConfirmed = true; // the page asks once for each job
          await submit(); // the user may have changed the form
        }
      };
      const start = h("button", { type: "button", onclick: () => void trying(submit) }, "Start the job");
      return h("div", {}, form.element, h("p", {}, start), question, said, details);
    };
    return { name, description, badges: ["job"], view };
  }

  /** @param {import("./protocol.js").Sent} sent */
  function code(sent) {
    const title = h("summary", {}, "Copy as curl, Python or TypeScript");
    return h("details", {}, title, routeSnippets(sent, { url, secured: page.isSecured() }));
  }

  const list = table("Your jobs, newest first", ["Job", "Status", "Progress", "Result"], rows);
  const element = h("div", {}, entryList("jobs", jobs.map(entry)), error, away, list);
  const draw = () => void trying(refresh, away);
  setInterval(() => {
    if (element.offsetParent && !document.hidden && page.client.isOpen) draw();
  }, REFRESH_MS);
  return { element, refresh: draw };
}
