// The field of each schema. A field of an object, a list or a union has other fields inside.
import { h } from "./dom.js";
import { booleanField, choiceField, jsonField, labelled, numberField, textField } from "./inputs.js";
import { pretty } from "./json.js";
import { choices, fits, isObject, nameOf, resolve, typeOf, variants } from "./schema.js";

/**
 * @typedef {import("./schema.js").Schema} Schema
 * @typedef {import("./inputs.js").Field} Field
 * @typedef {import("./inputs.js").Place} Place
 */

const DEEPEST = 8;
const MOST_PROPERTIES = 100;
const MOST_CHOICES = 500;
const MOST_FIRST_ITEMS = 10;
const MOST_AT_ONCE = 500;
const LONGEST_DEFAULT = 10_000;

/**
 * Make the fields of all arguments. A schema that breaks the rules gets one field, for JSON.
 * @param {Schema} root
 * @returns {Field}
 */
export function rootField(root) {
  const place = { root, label: "", required: true, depth: 0 };
  try {
    return objectField(resolve(root, root), place);
  } catch {
    return jsonField({}, { ...place, label: "arguments" });
  }
}

let made = 0;

/**
 * Return whether a form has too many fields or levels. A hostile schema could have millions, or contain itself.
 * Only the fields count that are made at once, so a user may add as many as they like, one after the other.
 * @param {Place} place
 */
function isTooLarge({ depth }) {
  if (made === 0) {
    queueMicrotask(() => {
      made = 0;
    });
  }
  made += 1;
  return made > MOST_AT_ONCE || depth > DEEPEST;
}

/**
 * Make the field of a schema. It begins with the default value of the schema.
 * @param {any} schema
 * @param {Place} place
 * @returns {Field}
 */
function fieldOf(schema, place) {
  if (isTooLarge(place)) return jsonField({}, place);
  const resolved = resolve(schema, place.root);
  const all = choices(resolved) ? [] : variants(resolved, place.root);
  const valued = all.filter((each) => typeOf(each) !== "null");
  const one = !place.required && valued.length === 1 && all.length > 1; // such as `int | None`
  const found = one ? { ...described(resolved), ...valued[0], ...described(resolved) } : resolved;
  const isUnion = all.length > 0 && !one;
  const isLarge = isUnion || (["object", "array"].includes(typeOf(found)) && !choices(found));
  const first = defaultOf(found);
  const make = () => {
    const field = isUnion ? unionField(found, all, place) : plainField(found, place);
    if (first !== undefined) field.write(first);
    return field;
  };
  return isLarge && !place.required ? optionalField(make, place, first !== undefined, one) : make();
}

/**
 * Return the default value of a schema; undefined without one, or if its form would be huge.
 * @param {Schema} schema
 */
function defaultOf({ default: first }) {
  if (first === undefined || first === null) return undefined;
  return pretty(first).length > LONGEST_DEFAULT ? undefined : first;
}

/**
 * @param {Schema} schema
 * @returns {Schema}
 */
function described({ title, description, default: first }) {
  const all = Object.entries({ title, description, default: first });
  return Object.fromEntries(all.filter(([, each]) => each !== undefined));
}

/**
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
function plainField(schema, place) {
  const listed = choices(schema);
  if (listed && listed.length <= MOST_CHOICES) return choiceField(schema, listed, place);
  switch (typeOf(schema)) {
    case "string":
      return textField(schema, place);
    case "integer":
    case "number":
      return numberField(schema, place);
    case "boolean":
      return booleanField(schema, place);
    case "array":
      return listField(schema, place);
    case "object":
      return schema.properties ? objectField(schema, place) : mapField(schema, place);
    default:
      return jsonField(schema, place);
  }
}

/**
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
function objectField(schema, place) {
  const properties = Object.entries(isObject(schema.properties) ? schema.properties : {});
  if (properties.length > MOST_PROPERTIES) return jsonField(schema, { ...place, label: place.label || "arguments" });
  const needed = Array.isArray(schema.required) ? schema.required : [];
  /** @type {[string, Field][]} */
  const fields = properties.map(([name, each]) => [
    name,
    fieldOf(each, { ...place, label: name, required: needed.includes(name), depth: place.depth + 1 }),
  ]);
  const inside = fields.map(([, field]) => field.element);
  return {
    element: group(schema, place, inside.length ? inside : [h("p", { class: "hint" }, "No arguments.")]),
    read() {
      const values = fields.map(([name, field]) => [name, field.read()]);
      return Object.fromEntries(values.filter(([, value]) => value !== undefined));
    },
    write(value) {
      /** @type {Record<string, any>} */
      const given = isObject(value) ? value : {};
      for (const [name, field] of fields) field.write(Object.hasOwn(given, name) ? given[name] : undefined);
    },
  };
}

/**
 * Put a frame with a label around the fields of a value. The outermost object needs none.
 * @param {Schema} schema
 * @param {Place} place
 * @param {any[]} inside
 * @returns {HTMLElement}
 */
function group(schema, { label, depth }, inside) {
  if (depth === 0) return h("div", {}, inside);
  const text = typeof schema.description === "string" ? schema.description : "";
  return h("fieldset", {}, h("legend", {}, label), text && h("p", { class: "hint" }, text), inside);
}

/**
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
function listField(schema, place) {
  /** @type {{field: Field, element: HTMLElement}[]} */
  let items = [];
  let added = 0;
  const list = h("div", { class: "items" });
  const add = h(
    "button",
    { type: "button", class: "quiet", onclick: () => append().focus() },
    `Add an item to ${place.label}`,
  );

  /** Add an item, and return its first input. */
  function append() {
    const index = items.length;
    const each = schema.prefixItems?.[index] ?? schema.items ?? {};
    added += 1; // two items never have the same label, also after one between them was removed
    const inside = { ...place, label: `item ${added} of ${place.label}`, required: true, depth: place.depth + 1 };
    const field = fieldOf(each, inside);
    const remove = h("button", { type: "button", class: "quiet", onclick: drop }, `Remove ${inside.label}`);
    const element = h("div", { class: "item" }, field.element, remove);
    function drop() {
      items = items.filter((other) => other.field !== field);
      element.remove();
      add.focus();
    }
    items.push({ field, element });
    list.append(element);
    return element.querySelector("input, textarea, select, button");
  }

  const first = Math.min(Number(schema.minItems ?? schema.prefixItems?.length ?? 0), MOST_FIRST_ITEMS);
  for (let i = 0; place.required && i < first; i += 1) append();
  return {
    element: group(schema, { ...place, depth: Math.max(1, place.depth) }, [list, add]),
    read: () => items.map(({ field }) => field.read()),
    write(value) {
      list.replaceChildren();
      items = [];
      added = 0;
      for (const each of Array.isArray(value) ? value : []) {
        append();
        items[items.length - 1].field.write(each);
      }
    },
  };
}

/**
 * The field of an object with free names, such as `dict[str, int]`.
 * @param {Schema} schema
 * @param {Place} place
 * @returns {Field}
 */
function mapField(schema, place) {
  if (!isObject(schema.additionalProperties)) return jsonField(schema, place);
  const entry = {
    type: "object",
    properties: { name: { type: "string" }, value: schema.additionalProperties },
    required: ["name", "value"],
  };
  const { description } = schema;
  const list = listField({ type: "array", items: entry, description }, place);
  return {
    element: list.element,
    read: () => Object.fromEntries(list.read().map((/** @type {any} */ each) => [each.name, each.value])),
    write(value) {
      const entries = Object.entries(isObject(value) ? value : {});
      list.write(entries.map(([name, each]) => ({ name, value: each })));
    },
  };
}

/**
 * @param {Schema} schema
 * @param {Schema[]} all
 * @param {Place} place
 * @returns {Field}
 */
function unionField(schema, all, place) {
  const options = all.map((each, index) => h("option", { value: index }, nameOf(each)));
  /** @type {HTMLSelectElement} */
  const kind = h("select", { onchange: () => choose(Number(kind.value)) }, options);
  const inside = h("div");
  /** @type {Field} */
  let field;

  /** @param {number} index */
  function choose(index) {
    kind.value = String(index);
    const isNull = typeOf(all[index]) === "null";
    field = isNull ? nothing() : fieldOf(all[index], { ...place, required: true, depth: place.depth + 1 });
    inside.replaceChildren(field.element);
  }

  choose(0);
  const { description } = schema;
  const choice = labelled(kind, { title: "one of these kinds", description }, { ...place, required: false });
  return {
    element: h("div", { class: "union" }, choice, inside),
    read: () => field.read(),
    write(value) {
      const index = all.findIndex((each) => fits(value, each));
      if (index >= 0) choose(index);
      field.write(value);
    },
  };
}

/** @returns {Field} */
function nothing() {
  return { element: h("p", { class: "hint" }, "The value is null."), read: () => null, write: () => {} };
}

/**
 * A field that is made only when the user wants it. So the form of a schema that contains itself ends.
 * @param {() => Field} make
 * @param {Place} place
 * @param {boolean} isThere whether the field is there at the beginning
 * @param {boolean} isNullable whether null means that the field is left out
 * @returns {Field}
 */
function optionalField(make, place, isThere, isNullable) {
  /** @type {Field | null} */
  let field = null;
  const inside = h("div");
  const button = h("button", { type: "button", class: "quiet", onclick: () => (field ? drop() : addAndFocus()) });

  function add() {
    field = make();
    inside.replaceChildren(field.element);
    button.textContent = `Remove ${place.label}`;
  }

  function addAndFocus() {
    add();
    inside.querySelector("input, textarea, select")?.focus();
  }

  function drop() {
    field = null;
    inside.replaceChildren();
    button.textContent = `Add ${place.label}`;
  }

  if (isThere) add();
  else drop();
  return {
    element: h("div", { class: "field optional" }, inside, button),
    read: () => (field ? field.read() : undefined),
    write(value) {
      if (value === undefined || (isNullable && value === null)) drop();
      else {
        if (!field) add();
        /** @type {any} */ (field).write(value);
      }
    },
  };
}
