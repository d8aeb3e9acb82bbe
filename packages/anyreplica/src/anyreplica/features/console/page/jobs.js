// Jobs: start one, follow its progress, read its result, cancel it. The page uses the routes below /jobs.
import { entryList } from "./components.js";
import { block, h, MOST_ITEMS, shortened, table } from "./dom.js";
import { AccessError, routeJson } from "./events.js";
import { makeForm } from "./form.js";
import { FieldError } from "./inputs.js";
import { pretty, stringify } from "./json.js";
import { agreed, mayChange } from "./questions.js";

/** @typedef {import("./call.js").Page} Page */

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
   */
  async function ask(path, options = {}) {
    /** @type {Record<string, string>} */
    const headers = { ...options.headers };
    const token = page.client.token();
    if (token) headers.Authorization = `Bearer ${token}`;
    return routeJson(await fetch(`${url}${path}`, { credentials: "omit", ...options, headers }));
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
      let isConfirmed = !page.confirms || !mayChange(tool);
      /** @returns {Promise<void>} */
      const submit = async () => {
        const params = form.read(); // before the question: it shows what is wrong
        if (isConfirmed) {
          const headers = { "Content-Type": "application/json" };
          await ask("", { method: "POST", headers, body: stringify({ job: name, params }) });
          await refresh();
        } else if (await agreed(question, start, "start it")) {
          isConfirmed = true; // the page asks once for each job
          await submit(); // the user may have changed the form
        }
      };
      const start = h("button", { type: "button", onclick: () => void trying(submit) }, "Start the job");
      return h("div", {}, form.element, h("p", {}, start), question);
    };
    return { name, description, badges: ["job"], view };
  }

  const list = table("Your jobs, newest first", ["Job", "Status", "Progress", "Result"], rows);
  const element = h("div", {}, entryList("jobs", jobs.map(entry)), error, away, list);
  const draw = () => void trying(refresh, away);
  setInterval(() => {
    if (element.offsetParent && !document.hidden && page.client.isOpen) draw();
  }, REFRESH_MS);
  return { element, refresh: draw };
}
