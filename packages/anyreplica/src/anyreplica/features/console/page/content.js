// Shows results as an agent gets them: text, images, audio, resources, links and structured content.
import { block, h, limitAtOnce } from "./dom.js";
import { isSameJson, parseJson, pretty } from "./json.js";
import { isObject } from "./schema.js";

const IMAGES = /^image\/(png|jpeg|gif|webp|avif|svg\+xml)$/;
const AUDIO = /^audio\/[a-z0-9.+-]+$/;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * Show the result of a tool.
 * @param {any} result
 * @param {(uri: string) => string} read shows a resource of the server; returns why it cannot, or an empty text
 */
export function toolResult(result, read) {
  const blocks = Array.isArray(result.content) ? result.content : [];
  const shown = limitAtOnce(h("div"), blocks, (/** @type {any} */ each) => contentBlock(each, read));
  const title = result.isError
    ? h("p", { class: "error", role: "alert" }, "The tool has answered with an error.")
    : null;
  const structured = result.structuredContent === undefined ? [] : structuredPart(result.structuredContent);
  const empty = blocks.length + structured.length ? null : h("p", { class: "hint" }, "The result is empty.");
  const parts = isTwice(result)
    ? [...structured, h("details", {}, h("summary", {}, "The same values as text"), shown)]
    : [shown, ...structured];
  return h("div", { class: result.isError ? "result failed" : "result" }, title, parts, empty);
}

/**
 * Show the messages of a prompt.
 * @param {any} result
 * @param {(uri: string) => string} read
 */
export function promptResult(result, read) {
  const messages = Array.isArray(result.messages) ? result.messages : [];
  const shown = limitAtOnce(h("div"), messages, (/** @type {any} */ { role, content }) =>
    h("div", { class: "message" }, h("h3", {}, String(role)), contentBlock(content, read)),
  );
  return h("div", { class: "result" }, result.description && h("p", {}, result.description), shown);
}

/**
 * Show the contents of a resource.
 * @param {any} result
 * @param {(uri: string) => string} read
 */
export function resourceResult(result, read) {
  const contents = Array.isArray(result.contents) ? result.contents : [];
  const draw = (/** @type {any} */ resource) => contentBlock({ type: "resource", resource }, read);
  const shown = limitAtOnce(h("div"), contents, draw);
  return h("div", { class: "result" }, contents.length ? shown : h("p", { class: "hint" }, "The resource is empty."));
}

/**
 * Return whether the only content is the JSON text of the structured content, which servers send for older clients.
 * @param {any} result
 */
function isTwice({ content, structuredContent }) {
  const values = [structuredContent, structuredContent?.result];
  if (content?.length !== 1 || content[0]?.type !== "text" || !values.some((each) => typeof each === "object"))
    return false;
  try {
    const found = parseJson(content[0].text);
    return typeof found === "object" && values.some((each) => isSameJson(each, found));
  } catch {
    return false;
  }
}

/** @param {unknown} value */
function structuredPart(value) {
  return [h("h3", {}, "Structured content"), block(pretty(value), "Structured content")];
}

/**
 * @param {any} content
 * @param {(uri: string) => string} read
 * @returns {HTMLElement}
 */
function contentBlock(content, read) {
  const found = isObject(content) ? content : {};
  switch (found.type) {
    case "text":
      return block(String(found.text), "Text");
    case "image":
      return media(IMAGES, "img", found) ?? file("image", found.mimeType, found.data);
    case "audio":
      return media(AUDIO, "audio", found) ?? file("audio", found.mimeType, found.data);
    case "resource":
      return resourceBlock(isObject(found.resource) ? found.resource : {});
    case "resource_link":
      return linkBlock(found, read);
    default:
      return block(pretty(content), "Content");
  }
}

/**
 * Show an image or audio; null if the page does not show this type.
 * @param {RegExp} types
 * @param {"img" | "audio"} tag
 * @param {any} content
 */
function media(types, tag, { mimeType, data, annotations }) {
  if (!types.test(mimeType) || !isBase64(data)) return null;
  const label = annotations?.title ?? `${tag === "img" ? "Image" : "Audio"} of the result (${mimeType})`;
  const more = tag === "img" ? { alt: label } : { controls: true, "aria-label": label };
  return h(tag, { src: `data:${mimeType};base64,${data}`, ...more });
}

/** @param {any} resource */
function resourceBlock({ uri, mimeType, text, blob }) {
  const title = h("p", { class: "hint" }, `Resource ${uri} ${mimeType ?? ""}`);
  if (typeof text === "string") return h("div", {}, title, block(text, `Resource ${uri}`));
  const shown = media(IMAGES, "img", { mimeType, data: blob }) ?? media(AUDIO, "audio", { mimeType, data: blob });
  return h("div", {}, title, shown ?? file(String(uri), mimeType, blob));
}

/**
 * A link to a resource of the server or of the web.
 * @param {any} link
 * @param {(uri: string) => string} read
 */
function linkBlock({ uri, name, title, description }, read) {
  const text = `${title ?? name ?? uri}`;
  const problem = h("span", { class: "error", role: "status" });
  function open() {
    problem.textContent = read(String(uri));
  }
  const shown = isWeb(uri)
    ? h("a", { href: uri, target: "_blank", rel: "noreferrer noopener" }, text)
    : h("button", { type: "button", class: "quiet", onclick: open }, `Read ${text}`);
  return h("p", {}, shown, " ", h("code", {}, uri), description ? ` ${description}` : "", " ", problem);
}

/**
 * A button that saves bytes as a file.
 * @param {string} name
 * @param {any} mimeType
 * @param {any} data in Base64
 */
function file(name, mimeType, data) {
  if (!isBase64(data)) return h("p", { class: "error" }, "These bytes are not valid Base64.");
  function save() {
    const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
    const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    h("a", { href: url, download: name.split("/").pop() || "file" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000); // some browsers read it after the click
  }
  const size = (data.length / 4) * 3 - (data.match(/=*$/)?.[0].length ?? 0);
  const text = `Save ${size} bytes (${mimeType ?? "unknown type"})`;
  return h("button", { type: "button", class: "quiet", onclick: save }, text);
}

/** @param {unknown} data */
function isBase64(data) {
  return typeof data === "string" && data.length % 4 === 0 && BASE64.test(data);
}

/**
 * Return whether a text is an address that a browser may open. Others, such as `javascript:`, could run scripts.
 * @param {unknown} url
 * @returns {url is string}
 */
export function isWeb(url) {
  return typeof url === "string" && /^https?:\/\//i.test(url);
}
