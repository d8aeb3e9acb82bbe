// Asks the user what a tool wants to know during its call.
import { isWeb } from "./content.js";
import { h, newId } from "./dom.js";
import { makeForm } from "./form.js";
import { FieldError } from "./inputs.js";

/**
 * Return whether a tool may change something: it may, unless it is marked as read-only.
 * @param {any} tool
 * @returns {boolean}
 */
export function mayChange(tool) {
  return tool.annotations?.readOnlyHint !== true;
}

/**
 * Ask the user whether a tool that may change something shall run.
 * @param {HTMLElement} place
 * @param {HTMLElement} button what the user has pressed; it gets the focus back
 * @param {string} verb what to do, such as "call it"
 * @returns {Promise<boolean>}
 */
export function agreed(place, button, verb) {
  return new Promise((resolve) => {
    const what = `${verb[0].toUpperCase()}${verb.slice(1)}`;
    const text = `This tool is not marked as read-only, so it may change something. ${what}?`;
    const yes = h("button", { type: "button", onclick: () => end(true) }, `Yes, ${verb}`);
    const no = h("button", { type: "button", class: "quiet", onclick: () => end(false) }, "No");
    const inside = [h("p", {}, text), h("p", {}, yes, " ", no)];
    const names = { role: "group", "aria-label": text, tabindex: -1 };
    const question = h("section", { class: "question", onkeydown: onEscape, ...names }, inside);
    place.replaceChildren(question);
    question.focus(); // not the button: a key that is held down would press it

    /** @param {KeyboardEvent} event */
    function onEscape(event) {
      if (event.key === "Escape") end(false);
    }

    /** @param {boolean} isYes */
    function end(isYes) {
      place.replaceChildren();
      button.focus();
      resolve(isYes);
    }
  });
}

/**
 * Return a function that answers the requests of a server with forms in an element of the page.
 * @param {HTMLElement} place
 * @param {AbortSignal} cancelled the end of the call
 * @returns {import("./client.js").Ask}
 */
export function asker(place, cancelled) {
  return async ({ method, params }, withdrawn) => {
    const signal = withdrawn ? AbortSignal.any([cancelled, withdrawn]) : cancelled;
    if (method === "roots/list") return { roots: [] };
    if (method === "ping") return {};
    if (method !== "elicitation/create") throw new Error(`This page cannot answer ${method}.`);
    return params?.mode === "url" ? askUrl(place, signal, params) : askForm(place, signal, params);
  };
}

/**
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 * @param {any} params
 */
function askForm(place, signal, { message, requestedSchema }) {
  const form = makeForm(requestedSchema ?? { type: "object", properties: {} });
  return asked(place, signal, message, form.element, () => ({ action: "accept", content: form.read() }));
}

/**
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 * @param {any} params
 */
function askUrl(place, signal, { message, url }) {
  const link = isWeb(url)
    ? h("a", { href: url, target: "_blank", rel: "noreferrer noopener" }, url)
    : h("code", {}, `${url} (this page opens only addresses of the web)`);
  const text = h("div", {}, h("p", {}, "The server asks you to open this address:"), h("p", {}, link));
  return asked(place, signal, message, text, () => ({ action: "accept" }));
}

/**
 * Show a question, and wait for the user.
 * @param {HTMLElement} place
 * @param {AbortSignal} signal
 * @param {string} message
 * @param {HTMLElement} inside
 * @param {() => any} accepted returns the answer; throws a FieldError
 * @returns {Promise<any>}
 */
function asked(place, signal, message, inside, accepted) {
  return new Promise((resolve, reject) => {
    const title = h("h3", { tabindex: -1, id: newId("question") }, "The tool asks");
    const accept = h("button", { type: "button", onclick: send }, "Send the answer");
    const no = () => end({ action: "decline" });
    const decline = h("button", { type: "button", class: "quiet", onclick: no }, "Decline");
    const text = h("p", { class: "question-text", id: newId("question") }, String(message ?? ""));
    const names = { role: "group", "aria-labelledby": title.id, "aria-describedby": text.id };
    const buttons = h("p", {}, accept, " ", decline);
    const question = h("section", { class: "question", onkeydown: onKey, ...names }, title, text, inside, buttons);
    const call = /** @type {HTMLElement | null | undefined} */ (place.parentElement?.querySelector(".buttons button"));
    const stop = () => {
      question.remove();
      reject(signal.reason);
    };

    function send() {
      try {
        end(accepted());
      } catch (problem) {
        if (!(problem instanceof FieldError)) throw problem; // the form shows what is wrong
      }
    }

    /** @param {KeyboardEvent} event */
    function onKey(event) {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      event.stopPropagation(); // the same keys would start a call
      send();
    }

    /** @param {any} answer */
    function end(answer) {
      signal.removeEventListener("abort", stop);
      question.remove();
      call?.focus(); // otherwise the focus would be lost with the question
      resolve(answer);
    }

    if (signal.aborted) {
      stop();
      return;
    }
    signal.addEventListener("abort", stop);
    place.append(question);
    title.focus();
  });
}
