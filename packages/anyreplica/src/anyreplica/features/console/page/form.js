// Makes a form from a JSON Schema. Each field is an object that can be read and written as a JSON value.
import { h, newId, tabs } from "./dom.js";
import { rootField } from "./fields.js";
import { FieldError } from "./inputs.js";
import { parseJson, pretty } from "./json.js";
import { isObject } from "./schema.js";

/** @typedef {import("./schema.js").Schema} Schema */

/**
 * Make the form of an object, with a view of its JSON beside it.
 * @param {Schema} schema
 * @param {(name: string, input: any) => void} [onInput] called for each input, for example to add completions
 * @returns {{element: HTMLElement, read: () => any}}
 */
export function makeForm(schema, onInput = () => {}) {
  const root = isObject(schema) ? schema : {};
  const fields = rootField(root);
  for (const input of fields.element.querySelectorAll("[data-name]")) {
    onInput(/** @type {any} */ (input).dataset.name, /** @type {any} */ (input));
  }
  const id = newId("json");
  const json = h("textarea", { id, rows: 8, spellcheck: "false", class: "code" });
  const error = h("p", { class: "error", role: "alert" });
  const form = h("div", {}, fields.element);
  const text = h("div", {}, h("label", { for: id }, "Arguments as JSON"), json);
  let isJson = false;

  const panels = /** @type {[string, HTMLElement][]} */ ([
    ["Form", form],
    ["JSON", text],
  ]);
  const views = tabs("How to enter the arguments", panels, change);

  /** @param {string} title */
  function change(title) {
    if ((title === "JSON") === isJson) return;
    error.textContent = "";
    try {
      if (title === "JSON") json.value = filled(json.value);
      else fields.write(parsed(json));
      isJson = title === "JSON";
    } catch (problem) {
      if (!(problem instanceof FieldError)) throw problem;
      error.textContent = problem.message;
      queueMicrotask(() => views.show(isJson ? "JSON" : "Form"));
    }
  }

  /**
   * Return what the form has as JSON. A form that is not complete leaves the text as it is.
   * @param {string} before
   */
  function filled(before) {
    try {
      return pretty(fields.read());
    } catch (problem) {
      if (!(problem instanceof FieldError)) throw problem;
      return before;
    }
  }

  return {
    element: h("div", { class: "form" }, views.element, error),
    read() {
      error.textContent = "";
      try {
        return isJson ? parsed(json) : fields.read();
      } catch (problem) {
        if (!(problem instanceof FieldError)) throw problem;
        error.textContent = problem.message;
        showInvalid(problem.input);
        throw problem;
      }
    },
  };
}

/**
 * Mark an input as wrong until its value changes, and move the focus to it.
 * @param {HTMLElement} input
 */
function showInvalid(input) {
  input.setAttribute("aria-invalid", "true");
  input.addEventListener("input", () => input.removeAttribute("aria-invalid"), { once: true });
  input.focus();
}

/**
 * @param {HTMLTextAreaElement} json
 * @returns {any}
 */
function parsed(json) {
  let value;
  try {
    value = parseJson(json.value || "{}");
  } catch (problem) {
    throw new FieldError(`This is not JSON: ${/** @type {Error} */ (problem).message}`, json);
  }
  if (!isObject(value)) throw new FieldError("The arguments must be a JSON object, such as {}.", json);
  return value;
}
