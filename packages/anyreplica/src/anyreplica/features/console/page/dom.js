// Makes elements of the page. Every text becomes a text node, so markup from a server is shown and never runs.
// A server may send more than a browser can draw. So the page draws a part, and says how much more there is.

/**
 * @typedef {string | number | Node | null | undefined | false} Child
 * @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Attributes
 */

/** The most items of a list, lines or messages that the page draws at once. */
export const MOST_ITEMS = 500;
/** The most characters of one text that the page draws at once. */
export const MOST_CHARACTERS = 20_000;

/**
 * Make an element. An attribute whose name begins with "on" is a listener. `false` and `null` leave an attribute out.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  element.append(...nodes(children));
  return element;
}

/**
 * Make an element of a drawing.
 * @param {string} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  element.append(...nodes(children));
  return element;
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 */
function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
}

/**
 * @param {(Child | Child[])[]} children
 * @returns {(string | Node)[]}
 */
function nodes(children) {
  const all = /** @type {Child[]} */ (children.flat());
  const shown = all.filter((each) => each !== null && each !== undefined && each !== false);
  return shown.map((each) => (each instanceof Node ? each : shortened(String(each))));
}

/**
 * Return a text as the page draws it: a long one without its end.
 * @param {string} text
 */
export function shortened(text) {
  const left = text.length - MOST_CHARACTERS;
  return left > 0 ? `${text.slice(0, MOST_CHARACTERS)} … (${left} more characters)` : text;
}

/**
 * Draw the first items of a list in an element, and a button that draws the next ones.
 * @template T
 * @param {HTMLElement} place
 * @param {T[]} items
 * @param {(item: T) => Child} draw
 * @param {number} [most] the number of items to draw at once
 * @param {(left: number) => string} [label] returns the text of the button
 * @returns {HTMLElement} the element
 */
export function limitAtOnce(place, items, draw, most = MOST_ITEMS, label = (left) => `… ${left} more`) {
  /** @param {number} begin */
  function drawFrom(begin) {
    const end = Math.min(items.length, begin + most);
    place.append(...nodes(items.slice(begin, end).map(draw)));
    if (end === items.length) return;
    const more = h("button", { type: "button", class: "quiet", onclick: next }, label(items.length - end));
    function next() {
      more.remove();
      drawFrom(end);
      /** @type {HTMLElement | null} */ (place.querySelector(":scope > button:last-child"))?.focus();
    }
    place.append(more);
  }
  drawFrom(0);
  return place;
}

let lastId = 0;

/**
 * Return a new id for an element, to connect it with its label.
 * @param {string} word
 */
export function newId(word) {
  lastId += 1;
  return `${word}-${lastId}`;
}

/**
 * A block of text that can be scrolled with the keyboard.
 * @param {string} text
 * @param {string} label
 */
export function block(text, label) {
  /** @type {string[]} */
  const parts = [];
  for (let at = 0; at < text.length; at += MOST_CHARACTERS) parts.push(text.slice(at, at + MOST_CHARACTERS));
  const rest = (/** @type {number} */ left) => text.length - (parts.length - left) * MOST_CHARACTERS;
  const more = (/** @type {number} */ left) => `… ${rest(left)} more characters`;
  const code = limitAtOnce(h("code"), parts, (each) => each, 1, more);
  return h("pre", { tabindex: 0, role: "group", "aria-label": label }, code);
}

/**
 * A block of text with a button that copies it.
 * @param {string} text
 * @param {string} label
 */
export function copied(text, label) {
  const button = h("button", { type: "button", class: "quiet", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select the text to copy it"; // without HTTPS, a page may not use the clipboard
    }
  }
  return h("div", { class: "copied" }, button, block(text, label));
}

/**
 * A table that can be scrolled sideways with the keyboard.
 * @param {string} caption
 * @param {string[]} columns
 * @param {HTMLElement} rows
 */
export function table(caption, columns, rows) {
  const head = h(
    "tr",
    {},
    columns.map((each) => h("th", { scope: "col" }, each)),
  );
  const whole = h("table", {}, h("caption", {}, caption), h("thead", {}, head), rows);
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, whole);
}

/**
 * Tabs for the keyboard and for screen readers (ARIA Authoring Practices, pattern "Tabs").
 * @param {string} label
 * @param {[string, HTMLElement][]} panels the title and the content of each tab
 * @param {(title: string) => void} [onShow] called when a tab is shown
 * @returns {{element: HTMLElement, show: (title: string) => void}}
 */
export function tabs(label, panels, onShow = () => {}) {
  const buttons = panels.map(([title], index) =>
    h("button", { type: "button", role: "tab", id: newId("tab"), onclick: () => select(index) }, title),
  );
  const list = h("div", { role: "tablist", "aria-label": label, onkeydown: move }, buttons);
  panels.forEach(([, panel], index) => {
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", buttons[index].id);
    panel.id ||= newId("panel");
    buttons[index].setAttribute("aria-controls", panel.id);
  });

  /** @param {number} index */
  function select(index) {
    panels.forEach(([, panel], each) => {
      const chosen = each === index;
      panel.hidden = !chosen;
      buttons[each].setAttribute("aria-selected", String(chosen));
      buttons[each].tabIndex = chosen ? 0 : -1;
    });
    onShow(panels[index][0]);
  }

  /** @param {KeyboardEvent} event */
  function move(event) {
    const now = buttons.indexOf(/** @type {any} */ (document.activeElement));
    const last = buttons.length - 1;
    /** @type {Record<string, number>} */
    const to = { ArrowRight: now === last ? 0 : now + 1, ArrowLeft: now <= 0 ? last : now - 1, Home: 0, End: last };
    const next = to[event.key];
    if (next === undefined) return;
    event.preventDefault();
    select(next);
    buttons[next].focus();
  }

  select(0);
  return {
    element: h("div", { class: "tabs" }, list, ...panels.map(([, panel]) => panel)),
    show: (title) => select(panels.findIndex(([each]) => each === title)),
  };
}
