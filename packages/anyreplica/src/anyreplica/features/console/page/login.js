// Logs a user in with OAuth 2.1, as any MCP client does: discovery, registration, PKCE, and a token in memory.
import { parseJson } from "./json.js";
import { base64 } from "./protocol.js";
import { isObject } from "./schema.js";

const CHANNEL = "anyreplica-login";
const WAIT_SECONDS = 300;
const LONGEST_ISSUER = 200;
/** A URL without a path. */
const HOST_ONLY = /^(\w+:\/\/[^/]+)\/$/;

/**
 * @typedef {object} Login
 * @property {string} token
 * @property {() => Promise<boolean>} refresh gets a new token; returns false if the user must log in again
 */

/**
 * Return the URL of the resource metadata that a challenge names, or an empty text (RFC 9728, section 5.1).
 * @param {string} challenge the value of WWW-Authenticate
 */
export function metadataUrl(challenge) {
  return /resource_metadata="([^"]+)"/.exec(challenge)?.[1] ?? "";
}

/**
 * If this page is the one to which the login comes back, pass the answer on and close it.
 * @returns {boolean} whether it is that page
 */
export function passLoginOn() {
  const query = new URLSearchParams(location.search);
  if (!query.has("state") || !(query.has("code") || query.has("error"))) return false;
  new BroadcastChannel(CHANNEL).postMessage(Object.fromEntries(query));
  history.replaceState(null, "", location.pathname);
  window.close();
  return true;
}

/**
 * Log in, in a window of the login's own page.
 * @param {string} metadata the URL of the resource metadata
 * @param {string} resource the URL of the MCP endpoint
 * @returns {Promise<Login>}
 */
export async function login(metadata, resource) {
  if (!window.isSecureContext) throw new Error("A login in the page needs HTTPS, or the address http://localhost.");
  const popup = window.open("", "_blank", "popup,width=520,height=720");
  if (!popup) throw new Error("The browser has blocked the window of the login. Allow it, and try again.");
  try {
    const found = await json(local(metadata));
    const server = await authorizationServer(found.authorization_servers?.[0] ?? location.origin);
    const redirect = location.origin + location.pathname;
    const client = await register(server, redirect);
    const verifier = random();
    const state = random();
    const scope = (found.scopes_supported ?? []).join(" ");
    /** @type {Record<string, string>} */
    const query = {
      response_type: "code",
      client_id: client.client_id,
      redirect_uri: redirect,
      code_challenge: await sha256(verifier),
      code_challenge_method: "S256",
      state,
      resource: found.resource ?? resource,
    };
    if (scope) query.scope = scope;
    popup.location.href = withQuery(server.authorization_endpoint, query);
    const code = await returned(state, server);
    const grant = { grant_type: "authorization_code", code, redirect_uri: redirect, code_verifier: verifier };
    const basic = { client_id: client.client_id, resource: query.resource };
    return await tokens(server.token_endpoint, { ...grant, ...basic }, basic);
  } catch (problem) {
    popup.close();
    throw problem;
  }
}

/**
 * @param {string} endpoint
 * @param {Record<string, string>} grant
 * @param {Record<string, string>} basic what each later request for tokens has, too
 * @returns {Promise<Login>}
 */
async function tokens(endpoint, grant, basic) {
  let found = await json(endpoint, form(grant));
  /** @type {Login} */
  const result = {
    token: found.access_token,
    async refresh() {
      if (!found.refresh_token) return false;
      const again = { grant_type: "refresh_token", refresh_token: found.refresh_token, ...basic };
      try {
        found = { refresh_token: found.refresh_token, ...(await json(endpoint, form(again))) };
      } catch {
        return false;
      }
      result.token = found.access_token;
      return true;
    },
  };
  return result;
}

/**
 * Return the metadata of an authorization server (RFC 8414; OpenID Connect Discovery as a second try). They must name
 * the issuer that was asked (RFC 8414, section 3.3), or one login server could pretend to be another one.
 * @param {string} issuer
 */
async function authorizationServer(issuer) {
  const { origin, pathname } = new URL(issuer);
  const path = pathname.replace(/\/$/, "");
  const tries = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ];
  for (const url of tries) {
    const found = await json(local(url)).catch(() => null); // null: try the next place
    if (found && isSameUrl(found.issuer, issuer)) return found;
    if (found) throw new Error(`${url} is the metadata of ${named(found.issuer)}, not of the issuer ${issuer}.`);
  }
  throw new Error(`The login server ${issuer} has no metadata that this page can read.`);
}

/**
 * Return whether two texts are the same URL. They may differ in a slash after the host only.
 * @param {unknown} one
 * @param {string} other
 */
function isSameUrl(one, other) {
  return typeof one === "string" && one.replace(HOST_ONLY, "$1") === other.replace(HOST_ONLY, "$1");
}

/**
 * Name the issuer that a login server claims to be.
 * @param {unknown} issuer
 */
function named(issuer) {
  return issuer ? `the issuer ${String(issuer).slice(0, LONGEST_ISSUER)}` : "no issuer";
}

/**
 * Register this page as a client (RFC 7591).
 * @param {any} server
 * @param {string} redirect
 */
async function register(server, redirect) {
  if (!server.registration_endpoint) {
    throw new Error("The login server registers no clients. Get a token in another way, and enter it as a key.");
  }
  const client = {
    client_name: "anyreplica console",
    redirect_uris: [redirect],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  const headers = { "Content-Type": "application/json" };
  return json(server.registration_endpoint, { method: "POST", headers, body: JSON.stringify(client) });
}

/**
 * Wait until the login comes back, and return its code. It must come from the server that was asked (RFC 9207).
 * @param {string} state
 * @param {any} server
 * @returns {Promise<string>}
 */
function returned(state, server) {
  const channel = new BroadcastChannel(CHANNEL);
  return new Promise((resolve, reject) => {
    const late = () => end(() => reject(new Error(`No login within ${WAIT_SECONDS / 60} minutes.`)));
    const timer = setTimeout(late, WAIT_SECONDS * 1000);
    /** @param {() => void} then */
    function end(then) {
      clearTimeout(timer);
      channel.close();
      then();
    }
    channel.onmessage = ({ data }) => {
      if (data.state !== state) return; // another page of this server logs in, too
      const namesIssuer = data.iss !== undefined || server.authorization_response_iss_parameter_supported;
      const isOther = namesIssuer && data.iss !== server.issuer;
      const other = `the answer is of ${named(data.iss)}, not of the issuer ${server.issuer}`;
      const wrong = isOther ? other : data.error_description || data.error;
      end(() => (wrong ? reject(new Error(`The login has failed: ${wrong}`)) : resolve(data.code)));
    };
  });
}

/**
 * A server may name itself by its public URL. This page reaches the same server by the page's own address.
 * @param {string} url
 */
function local(url) {
  const { host, pathname } = new URL(url, location.href);
  return host === location.host ? `${location.origin}${pathname}` : url;
}

/**
 * @param {string} url
 * @param {RequestInit} [options]
 * @returns {Promise<any>}
 */
async function json(url, options = {}) {
  const response = await fetch(url, { credentials: "omit", ...options });
  if (!response.ok) {
    const text = (await response.text()).slice(0, 300);
    throw new Error(`${url} has answered with the status ${response.status}: ${text}`);
  }
  const text = await response.text();
  try {
    const body = parseJson(text);
    if (isObject(body)) return body;
  } catch {
    // It is no JSON.
  }
  throw new Error(`${url} has not answered with JSON, but: ${text.slice(0, 300)}`);
}

/**
 * @param {Record<string, string>} fields
 * @returns {RequestInit}
 */
function form(fields) {
  return { method: "POST", body: new URLSearchParams(fields) };
}

/**
 * @param {string} url
 * @param {Record<string, string>} query
 */
function withQuery(url, query) {
  const whole = new URL(url);
  if (!["https:", "http:"].includes(whole.protocol)) throw new Error(`${url} is not the address of a login page.`);
  for (const [name, value] of Object.entries(query)) whole.searchParams.set(name, value);
  return whole.href;
}

function random() {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

/** @param {string} text */
async function sha256(text) {
  return base64url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  return base64(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
