// The page: it gets access, lists what the server offers, and shows it in tabs.
import { Client } from "./client.js";
import { promptList, resourceList, toolList } from "./components.js";
import { h, newId, tabs } from "./dom.js";
import { AccessError, RpcError } from "./events.js";
import { jobsView } from "./jobs.js";
import { login, metadataUrl, passLoginOn } from "./login.js";
import { HANDSHAKE, MODERN } from "./protocol.js";
import { swarmView } from "./swarm.js";

/**
 * @typedef {import("./login.js").Login} Login
 * @typedef {import("./call.js").Page} Page
 */

const { mcpPath, confirms } = /** @type {Record<string, string>} */ (document.body.dataset);
/** The URL before the paths of the server. A proxy may have put a prefix before them that the server does not know. */
const BASE = location.origin + location.pathname.replace(/\/$/, "");
const MCP_URL = `${BASE}${mcpPath}`;

/** What the page knows about its user. It is in memory only. */
const access = { token: "", login: /** @type {Login | null} */ (null) };

const client = new Client(MCP_URL, () => access.login?.token ?? access.token);
const status = h("p", { class: "status", role: "status" });
const panel = h("div");
const version = h(
  "select",
  { id: newId("version"), onchange: () => void open() },
  h("option", { value: MODERN }, `${MODERN} (stateless)`),
  h("option", { value: HANDSHAKE }, `${HANDSHAKE} (handshake)`),
);
const place = h("div");
const connect = /** @type {HTMLElement} */ (document.getElementById("connect"));

/** @type {Page} */
const page = {
  client,
  url: MCP_URL,
  confirms: confirms === "true",
  isSecured: () => client.token() !== "",
  onAccess: (error) => {
    const isFirst = client.isOpen;
    client.isOpen = false; // the view of the jobs asks every second, and must not replace what the user types
    if (isFirst) void renew(error);
  },
  read: (uri) => openResource(uri),
};

/** The panel of the resources. */
let resources = h("div");
let showTab = (/** @type {string} */ _title) => {};
let lastOpening = 0;

/**
 * Connect to the server, and show what it offers this user.
 * @param {boolean} [mayRenew] whether a refused token may be replaced by a new one of the login
 */
async function open(mayRenew = true) {
  client.close(); // no call goes on in another protocol version, or for another user
  lastOpening += 1;
  const number = lastOpening;
  panel.replaceChildren();
  place.replaceChildren();
  status.textContent = "Connecting …";
  /** @type {unknown} */
  let problem = null;
  try {
    const found = await offered();
    if (number === lastOpening) show(found);
  } catch (error) {
    problem = error;
  }
  if (number !== lastOpening) return; // the user has chosen another version since
  status.textContent = "";
  if (!problem) return;
  showConnect();
  const isForbidden = problem instanceof RpcError && problem.status === 403 && client.token() !== "";
  if (isForbidden) showAccess(new AccessError(/** @type {Error} */ (problem).message, ""));
  else if (!(problem instanceof AccessError)) panel.replaceChildren(notConnected(/** @type {Error} */ (problem)));
  else if (mayRenew && access.login && (await access.login.refresh())) await open(false);
  else showAccess(problem);
}

/**
 * Get a new token with the login's refresh token. If that fails, ask for access.
 * @param {AccessError} problem
 */
async function renew(problem) {
  if (!access.login || !(await access.login.refresh())) {
    showAccess(problem);
    return;
  }
  client.isOpen = true;
  status.textContent = "Your login has been renewed. Call again.";
}

/** Show how to connect, outside of the tabs. */
function showConnect() {
  connect.removeAttribute("role");
  connect.removeAttribute("aria-labelledby");
  connect.hidden = false;
  place.replaceChildren(connect);
}

/** @param {Error} problem */
function notConnected(problem) {
  const text = `The server has not answered as an MCP server does: ${problem.message}`;
  const again = h("button", { type: "button", onclick: () => void open().then(focusTab) }, "Try again");
  return h("div", { class: "result failed" }, h("p", { class: "error" }, text), h("p", {}, again));
}

/** Connect to the server, and return what it offers this user. */
async function offered() {
  const { capabilities, instructions } = await client.connect(version.value);
  const has = capabilities ?? {};
  return {
    instructions,
    tools: has.tools ? await client.list("tools/list", "tools") : [],
    resources: has.resources ? await client.list("resources/list", "resources") : [],
    templates: has.resources ? await client.list("resources/templates/list", "resourceTemplates") : [],
    prompts: has.prompts ? await client.list("prompts/list", "prompts") : [],
  };
}

/**
 * Show what a server offers in tabs.
 * @param {{instructions?: string, tools: any[], resources: any[], templates: any[], prompts: any[]}} found
 */
function show({ instructions, tools, resources: fixed, templates, prompts }) {
  const jobs = jobsView(page, `${BASE}/jobs`, tools);
  const intro = instructions ? h("p", { class: "description" }, instructions) : null;
  resources = h("div", {}, resourceList(page, fixed, templates));
  /** @type {[string, HTMLElement][]} */
  const panels = [
    ["Tools", h("div", {}, intro, toolList(page, tools))],
    ["Resources", resources],
    ["Prompts", h("div", {}, promptList(page, prompts))],
  ];
  if (jobs) panels.push(["Jobs", jobs.element]);
  panels.push(["Swarm", swarmView(page, `${BASE}/replicas`, tools)], ["Connect", connect]);
  const views = tabs("What the server offers", panels, (title) => {
    if (title === "Jobs") jobs?.refresh();
  });
  showTab = views.show;
  place.replaceChildren(views.element);
}

/** Move the focus to the first tab, because the input that had it is gone. */
function focusTab() {
  const tab = /** @type {HTMLElement | null} */ (place.querySelector('[role="tab"]'));
  tab?.focus();
}

/**
 * Open the entry of a resource, which a result links to. A search that hides it ends.
 * @param {string} uri
 * @returns {string} why it cannot be opened; empty if it is open
 */
function openResource(uri) {
  const search = resources.querySelector("input");
  if (search && !listedResource(uri)) {
    search.value = "";
    search.dispatchEvent(new Event("input"));
  }
  const found = listedResource(uri);
  if (!found) return `${uri} is not in the list of resources that the page shows. A template may have it.`;
  showTab("Resources");
  found.open = true;
  found.scrollIntoView();
  found.querySelector("summary")?.focus();
  return "";
}

/** @param {string} uri */
function listedResource(uri) {
  const entries = /** @type {NodeListOf<HTMLDetailsElement>} */ (resources.querySelectorAll("details.entry"));
  return [...entries].find((each) => each.dataset.entry === uri);
}

/**
 * Ask for a key, or offer a login if the server has one.
 * @param {AccessError} problem
 */
function showAccess({ message, challenge }) {
  const id = newId("key");
  const input = h("input", { id, type: "password", autocomplete: "off", required: true });
  const error = h("p", { class: "error", role: "alert" }, client.token() ? message : "");
  const metadata = metadataUrl(challenge);

  function useKey(/** @type {Event} */ event) {
    event.preventDefault();
    const value = input.value.trim();
    if (!/^[!-~]+$/.test(value)) {
      error.textContent = "A key has only letters, digits and signs of ASCII, and no spaces.";
      return;
    }
    access.login = null;
    access.token = value;
    void open().then(focusTab);
  }

  async function useLogin() {
    error.textContent = "";
    try {
      access.login = await login(metadata, MCP_URL);
      access.token = "";
      await open();
      focusTab();
    } catch (problem) {
      error.textContent = /** @type {Error} */ (problem).message;
    }
  }

  const key = h(
    "form",
    { class: "options", onsubmit: useKey },
    h("div", {}, h("label", { for: id }, "Key or token"), input),
    h("button", {}, "Use it"),
  );
  const start = h("button", { type: "button", onclick: () => void useLogin() }, "Log in");
  const button = metadata ? h("p", {}, start) : null;
  const text = "This server wants to know who you are. The page keeps your key in memory only, until you close it.";
  const inside = [h("h2", {}, "Access"), h("p", {}, text), button, key, error];
  panel.replaceChildren(h("section", { class: "question" }, inside));
  input.focus();
}

if (passLoginOn()) {
  document.body.replaceChildren(h("p", {}, "The login has ended. You can close this window."));
} else {
  const choice = h("div", {}, h("label", { for: version.id }, "Protocol version"), version);
  const main = /** @type {HTMLElement} */ (document.querySelector("main"));
  main.prepend(h("div", { class: "options" }, choice, status), panel, place);
  connect.hidden = true;
  void open();
}
