// The lists of tools, resources and prompts. Each entry opens to a form that calls it.
import { callView } from "./call.js";
import { promptResult, resourceResult, toolResult } from "./content.js";
import { h, limitAtOnce, MOST_ITEMS, newId } from "./dom.js";
import { ONE_LINE } from "./inputs.js";
import { mayChange } from "./questions.js";

/**
 * @typedef {import("./call.js").Page} Page
 * @typedef {{name: string, title?: string, description?: string, badges: string[], view: () => HTMLElement}} Entry
 */

const COMPLETION_PAUSE_MS = 200;

/**
 * Show a list with a search. An entry's form is made when the entry opens. Entries that the search hides keep theirs.
 * @param {string} word what the entries are, in the plural
 * @param {Entry[]} entries
 * @returns {HTMLElement}
 */
export function entryList(word, entries) {
  if (!entries.length) return h("p", { class: "hint" }, `This server has no ${word} for you.`);
  /** @type {Map<Entry, HTMLElement>} */
  const elements = new Map();
  const list = h("div");
  const count = h("span", { role: "status", class: "hint" });
  const id = newId("search");
  const input = h("input", { id, type: "search", oninput: search, autocomplete: "off" });

  /** @param {Entry} entry */
  function draw(entry) {
    const element = elements.get(entry) ?? entryElement(entry);
    elements.set(entry, element);
    return element;
  }

  function search() {
    const wanted = input.value.toLowerCase();
    const found = entries.filter(({ name, title, description }) =>
      `${name} ${title ?? ""} ${description ?? ""}`.toLowerCase().includes(wanted),
    );
    list.replaceChildren();
    limitAtOnce(list, found, draw);
    count.textContent = `${found.length} of ${entries.length} ${word}`;
  }

  search();
  const title = h("h2", { class: "unseen" }, `All ${word}`);
  const label = h("label", { for: id }, `Search the ${word}`);
  const searching = h("div", { class: "search" }, label, input, count);
  return h("div", {}, title, searching, list);
}

/** @param {Entry} entry */
function entryElement({ name, title, description, badges, view }) {
  const body = h("div", { class: "entry-body" });
  const marks = badges.map((each) => h("span", { class: "badge" }, each));
  const first = (description ?? "").trim().split("\n")[0];
  const second = title && title !== name ? ` ${title} ` : " ";
  const summary = h("summary", {}, h("code", {}, name), second, marks, h("small", {}, first));
  const element = h("details", { class: "entry", ontoggle: open }, summary, body);
  element.dataset.entry = name;
  function open() {
    if (!element.open || body.childElementCount) return;
    const isMore = (description ?? "").trim() !== first; // the summary has the first line already
    const whole = isMore || !description ? h("p", { class: "description" }, description || "No description.") : null;
    body.append(...[whole, view()].filter((each) => each !== null));
  }
  return element;
}

/**
 * @param {Page} page
 * @param {any[]} tools
 */
export function toolList(page, tools) {
  return entryList(
    "tools",
    tools.map((tool) => toolEntry(page, tool)),
  );
}

/**
 * @param {Page} page
 * @param {any} tool
 * @returns {Entry}
 */
function toolEntry(page, tool) {
  const { name, title, description, inputSchema } = tool;
  const annotations = tool.annotations ?? {};
  const component = {
    method: "tools/call",
    verb: "Call",
    schema: inputSchema,
    inputSchema,
    writes: mayChange(tool),
    params: (/** @type {any} */ values) => ({ name, arguments: values }),
    show: (/** @type {any} */ result) => toolResult(result, page.read),
  };
  const badges = badgesOf(annotations);
  const view = () => {
    const text = permissionsOf(tool, page.isSecured()).join(" ");
    return h("div", {}, h("p", { class: "hint" }, h("b", {}, "Permissions: "), text), callView(page, component));
  };
  return { name, title: title ?? annotations.title, description, badges, view };
}

/**
 * Say what a tool may do, and what its caller needs. An annotation that is missing has its default (ToolAnnotations in
 * the schema of MCP 2026-07-28).
 * @param {any} tool
 * @param {boolean} isSecured whether the page sends a token
 */
function permissionsOf({ annotations, securitySchemes, _meta }, isSecured) {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = annotations ?? {};
  const reads = readOnlyHint === true;
  const adds = destructiveHint === false;
  const schemes = securitySchemes ?? _meta?.securitySchemes; // the names that OpenAI's Apps SDK uses
  const scopes = (Array.isArray(schemes) ? schemes : []).flatMap((each) => each?.scopes ?? []);
  return [
    reads && "It only reads.",
    !reads &&
      (adds ? "It may add something, but it changes and deletes nothing." : "It may change or delete something."),
    !reads && idempotentHint === true && "A second call with the same arguments changes nothing more.",
    openWorldHint === false ? "It reaches no other systems." : "It may reach other systems.",
    scopes.length > 0 && `A caller needs these scopes: ${scopes.join(", ")}.`,
    isSecured && "You may call it: the server lists only what your key or login may use.",
  ].filter(Boolean);
}

/** @param {any} annotations */
function badgesOf({ readOnlyHint, destructiveHint, idempotentHint, openWorldHint }) {
  const all = [
    readOnlyHint === true && "read-only",
    destructiveHint === true && readOnlyHint !== true && "destructive",
    idempotentHint === true && "idempotent",
    openWorldHint === true && "open world",
  ];
  return /** @type {string[]} */ (all.filter(Boolean));
}

/**
 * @param {Page} page
 * @param {any[]} prompts
 */
export function promptList(page, prompts) {
  return entryList(
    "prompts",
    prompts.map((prompt) => promptEntry(page, prompt)),
  );
}

/**
 * @param {Page} page
 * @param {any} prompt
 * @returns {Entry}
 */
function promptEntry(page, { name, title, description, arguments: given = [] }) {
  const properties = given.map((/** @type {any} */ each) => [each.name, line(each.description)]);
  const required = given.filter((/** @type {any} */ each) => each.required).map((/** @type {any} */ each) => each.name);
  const component = {
    method: "prompts/get",
    verb: "Get the prompt",
    schema: { type: "object", properties: Object.fromEntries(properties), required },
    params: (/** @type {any} */ values) => ({ name, arguments: values }),
    show: (/** @type {any} */ result) => promptResult(result, page.read),
    onInput: completer(page, { type: "ref/prompt", name }),
  };
  return { name, title, description, badges: [], view: () => callView(page, component) };
}

/**
 * @param {Page} page
 * @param {any[]} resources
 * @param {any[]} templates
 */
export function resourceList(page, resources, templates) {
  const fixed = resources.map((each) => resourceEntry(page, each, each.uri, "read-only"));
  const templated = templates.map((each) => resourceEntry(page, each, each.uriTemplate, "template"));
  return entryList("resources", [...fixed, ...templated]);
}

/**
 * @param {Page} page
 * @param {any} resource
 * @param {string} uri the URI, or its template
 * @param {string} badge
 * @returns {Entry}
 */
function resourceEntry(page, { name, title, description, mimeType }, uri, badge) {
  const names = variablesOf(uri);
  const component = {
    method: "resources/read",
    verb: "Read",
    schema: {
      type: "object",
      properties: Object.fromEntries(names.map(({ name: each }) => [each, line()])),
      required: names.filter(({ isQuery }) => !isQuery).map(({ name: each }) => each),
    },
    params: (/** @type {any} */ values) => ({ uri: expanded(uri, values) }),
    show: (/** @type {any} */ result) => resourceResult(result, page.read),
    onInput: completer(page, { type: "ref/resource", uri }),
  };
  const badges = [badge, mimeType].filter(Boolean);
  return { name: uri, title: title ?? name, description, badges, view: () => callView(page, component) };
}

/** @param {string} [description] */
function line(description) {
  return { type: "string", description, [ONE_LINE]: true };
}

const EXPRESSION = /\{([?&/+#]?)([^{}]+)\}/g;

/**
 * Return the variables of a URI template (RFC 6570).
 * @param {string} template
 */
function variablesOf(template) {
  return [...template.matchAll(EXPRESSION)].flatMap(([, operator, list]) => {
    const isQuery = operator === "?" || operator === "&";
    return list.split(",").map((each) => ({ name: each.replace(/\*$|:\d+$/, ""), isQuery }));
  });
}

/**
 * Put values into a URI template (RFC 6570).
 * @param {string} template
 * @param {Record<string, unknown>} values
 */
function expanded(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const isQuery = operator === "?" || operator === "&";
    /** @type {string[]} */
    const parts = [];
    for (const variable of list.split(",")) {
      const name = variable.replace(/\*$|:\d+$/, "");
      if (!Object.hasOwn(values, name)) continue;
      const value = String(values[name]);
      const keepsSlashes = variable.endsWith("*") || operator === "+" || operator === "#";
      const text = keepsSlashes ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
      parts.push(isQuery ? `${name}=${text}` : text);
    }
    const first = operator === "+" ? "" : operator;
    const between = isQuery ? "&" : operator === "/" ? "/" : ",";
    return parts.length ? first + parts.join(between) : "";
  });
}

/**
 * Return a function that adds the server's completions to the input of an argument.
 * @param {Page} page
 * @param {any} ref
 * @returns {(name: string, input: any) => void}
 */
function completer(page, ref) {
  return (name, input) => {
    if (input.tagName !== "INPUT") return;
    const list = h("datalist", { id: newId("completions") });
    input.setAttribute("list", list.id);
    input.after(list);
    let timer = 0;
    async function complete() {
      try {
        const argument = { name, value: input.value };
        const { completion } = await page.client.request("completion/complete", { ref, argument });
        if (argument.value !== input.value) return; // a later request has the completions of the new text
        const values = completion.values.slice(0, MOST_ITEMS);
        list.replaceChildren(...values.map((/** @type {string} */ value) => h("option", { value })));
      } catch {
        list.replaceChildren(); // a server without completions answers with an error
      }
    }
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(() => void complete(), COMPLETION_PAUSE_MS);
    };
    input.addEventListener("input", later);
    input.addEventListener("focus", later);
  };
}
