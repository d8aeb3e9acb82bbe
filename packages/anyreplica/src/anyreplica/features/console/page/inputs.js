// The fields of a form that are one input: texts, numbers, choices, and JSON.
import { h, newId } from "./dom.js";
import { exactNumber, isSameJson, parseJson, pretty } from "./json.js";
import { limitsOf, nameOf, typeOf } from "./schema.js";

/**
 * @typedef {import("./schema.js").Schema} Schema
 * @typedef {object} Field
 * @property {HTMLElement} element
 * @property {() => any} read returns the value; undefined if the caller leaves it out; throws a FieldError
 * @property {(value: any) => void} write
 *
 * @typedef {object} Place where a field is
 * @property {Schema} root the schema with the definitions
 * @property {string} label
 * @property {boolean} required
 * @property {number} depth how many fields it is inside
 */

/** A keyword of the page's own schemas: the input has one line, so it can show completions. */
export const ONE_LINE = "x-one-line";

/** The value of a field is not valid. */
export class FieldError extends Error {
  /**
   * @param {string} message
   * @param {HTMLElement} input
   */
  constructor(message, input) {
    super(message);
    this.input = input;
  }
}

/**
 * Put the label and the description of a field around its input.
 * @param {HTMLElement} input
 * @param {Schema} schema
 * @param {Place} place
 */
export function labelled(input, schema, { label, required }) {
  input.id = newId("field");
  const hint = typeof schema.description === "string" ? schema.description : "";
  const kind = [nameOf(schema), limitsOf(schema), required && "required"].filter(Boolean).join(", ");
  const hintId = newId("hint");
  if (hint) input.setAttribute("aria-describedby", hintId);
  if (required) input.setAttribute("aria-required", "true");
  input.dataset.name = label;
  return h(
    "div",
    { class: "field" },
    h("label", { for: input.id }, label, h("small", {}, ` ${kind}`)),
    hint && h("p", { class: "hint", id: hintId }, hint),
    input,
  );
}

/**
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
export function textField(schema, place) {
  const types = new Map([
    ["date", "date"],
    ["time", "time"],
    ["email", "email"],
    ["uri", "url"],
  ]);
  const type = types.get(schema.format) ?? (schema[ONE_LINE] ? "text" : undefined);
  const example = schema.format === "date-time" ? "2026-07-28T12:00:00Z" : "";
  const input = type ? h("input", { type }) : h("textarea", { rows: 1, placeholder: example, spellcheck: "false" });
  return {
    element: labelled(input, schema, place),
    read() {
      if (input.value !== "") return input.value;
      if (place.required && schema.minLength > 0) throw new FieldError(`${place.label}: a text is required.`, input);
      return place.required ? "" : undefined;
    },
    write(value) {
      const text = String(value ?? "");
      if (type) input.type = type;
      input.value = text;
      if (!type || input.value === text) return;
      input.type = "text"; // an input for dates or times refuses other texts, and they would be lost
      input.value = text;
    },
  };
}

/**
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
export function numberField(schema, place) {
  const whole = typeOf(schema) === "integer";
  const input = h("input", { type: "text", inputmode: whole ? "numeric" : "decimal", autocomplete: "off" });
  return {
    element: labelled(input, schema, place),
    read() {
      const text = input.value.trim();
      if (text === "" && !place.required) return undefined;
      const rounded = Number(text);
      const value = exactNumber(text, rounded);
      const isExact = typeof value === "bigint";
      if (text === "" || !(isExact || (whole ? Number.isInteger(rounded) : Number.isFinite(rounded)))) {
        throw new FieldError(`${place.label}: must be a ${whole ? "whole number" : "number"}.`, input);
      }
      if (whole && !isExact && !Number.isSafeInteger(rounded)) {
        throw new FieldError(`${place.label}: this number is too large for a browser to send exactly.`, input);
      }
      return value;
    },
    write: (value) => {
      input.value = value ?? "";
    },
  };
}

/**
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
export function booleanField(schema, place) {
  const listed = [
    { value: false, title: "no" },
    { value: true, title: "yes" },
  ];
  return choiceField(schema, listed, place);
}

/**
 * @param {Schema} schema
 * @param {{value: any, title: string}[]} listed
 * @param {Place} place
 * @returns {Field}
 */
export function choiceField(schema, listed, place) {
  const options = listed.map(({ value, title }, index) =>
    h("option", { value: index }, isSameJson(value, schema.default) ? `${title} (default)` : title),
  );
  const input = h("select", {}, place.required ? [] : h("option", { value: "" }, "(left out)"), options);
  return {
    element: labelled(input, schema, place),
    read: () => (input.value === "" ? undefined : listed[Number(input.value)].value),
    write: (value) => {
      const index = listed.findIndex((each) => isSameJson(each.value, value));
      input.value = index < 0 ? "" : String(index);
    },
  };
}

/**
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
export function jsonField(schema, place) {
  const input = h("textarea", { rows: 2, class: "code", placeholder: "JSON", spellcheck: "false" });
  return {
    element: labelled(input, schema, place),
    read() {
      if (input.value.trim() === "") {
        if (!place.required) return undefined;
        throw new FieldError(`${place.label}: a value is required, as JSON.`, input);
      }
      try {
        return parseJson(input.value);
      } catch (problem) {
        throw new FieldError(`${place.label}: this is not JSON: ${/** @type {Error} */ (problem).message}`, input);
      }
    },
    write: (value) => {
      input.value = value === undefined ? "" : pretty(value);
    },
  };
}
