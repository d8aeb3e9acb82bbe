// Reads JSON Schemas (2020-12): references, unions, and what a value of a schema looks like.
import { isNumber, isSameJson, isWholeNumber, stringify } from "./json.js";

/** @typedef {Record<string, any>} Schema */

// The limits of what a form reads of a schema. Without them, a hostile schema could keep the page busy for ever.
const LONGEST_REFERENCE = 500;
const MOST_PARTS = 50;
const MOST_VARIANTS = 50;

const JSON_TYPES = new Map([
  ["string", "text"],
  ["integer", "whole number"],
  ["number", "number"],
  ["boolean", "yes or no"],
  ["array", "list"],
  ["object", "object"],
  ["null", "null"],
]);

/**
 * Return a schema without a reference at its top, and with the parts of `allOf` in one object.
 * @param {any} schema
 * @param {Schema} root the schema that has the definitions
 * @param {{parts: number}} [left] how many references and parts it may still follow
 * @returns {Schema}
 */
export function resolve(schema, root, left = { parts: MOST_PARTS }) {
  /** @type {Schema} */
  let found = isObject(schema) ? schema : {};
  while (typeof found.$ref === "string" && left.parts > 0) {
    left.parts -= 1;
    const { $ref, ...beside } = found;
    found = { ...at(root, $ref), ...beside };
  }
  const { $ref: _, allOf, ...rest } = found;
  /** @type {Schema} */
  let all = rest;
  for (const part of listOf(allOf)) {
    if (left.parts <= 0) break;
    left.parts -= 1;
    all = merged(all, resolve(part, root, left));
  }
  return all;
}

/**
 * @param {Schema} one
 * @param {Schema} other
 * @returns {Schema}
 */
function merged(one, other) {
  const properties = { ...one.properties, ...other.properties };
  const required = [...listOf(one.required), ...listOf(other.required)];
  return { ...other, ...one, ...(one.properties || other.properties ? { properties, required } : {}) };
}

/**
 * Return the part of a schema to which a reference such as `#/$defs/Place` points.
 * @param {Schema} root
 * @param {string} reference
 * @returns {Schema}
 */
function at(root, reference) {
  if (!reference.startsWith("#") || reference.length > LONGEST_REFERENCE) return {};
  /** @type {any} */
  let part = root;
  for (const step of reference.slice(1).split("/").slice(1)) {
    const key = stepName(step);
    part = typeof part === "object" && part !== null && Object.hasOwn(part, key) ? part[key] : undefined;
  }
  return isObject(part) ? part : {};
}

/**
 * Return the name that a step of a reference stands for (RFC 6901, section 6).
 * @param {string} step
 */
function stepName(step) {
  try {
    return decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return step;
  }
}

/**
 * Return the variants of a union, or an empty list for any other schema.
 * @param {Schema} schema
 * @param {Schema} root
 * @returns {Schema[]}
 */
export function variants(schema, root) {
  const types = listOf(schema.type).slice(0, MOST_VARIANTS);
  if (types.length) return types.map((type) => ({ ...schema, type }));
  if (schema.properties) return []; // the variants only add conditions, such as which properties are required
  const of = listOf(schema.anyOf ?? schema.oneOf).slice(0, MOST_VARIANTS);
  return of.map((each) => variant(each, root));
}

/**
 * Return a variant of a union with a title: its own, the name of its definition, or the constants that mark it.
 * @param {any} schema
 * @param {Schema} root
 * @returns {Schema}
 */
function variant(schema, root) {
  const found = resolve(schema, root);
  const reference = typeof schema?.$ref === "string" ? stepName(schema.$ref.split("/").pop()) : "";
  const properties = isObject(found.properties) ? Object.values(found.properties) : [];
  const marks = properties.map((each) => each?.const).filter((each) => typeof each === "string");
  const title = found.title || reference || marks.join(", ");
  return title ? { ...found, title } : found;
}

/**
 * Return the values among which a caller chooses, with their titles; null if the schema has no such list.
 * @param {Schema} schema
 * @returns {{value: any, title: string}[] | null}
 */
export function choices(schema) {
  if ("const" in schema) return [{ value: schema.const, title: schema.title ?? shown(schema.const) }];
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((value, index) => ({ value, title: names[index] ?? shown(value) }));
  }
  const titled = listOf(schema.oneOf ?? schema.anyOf);
  if (!titled.length || !titled.every((each) => isObject(each) && "const" in each)) return null;
  return titled.map((each) => ({ value: each.const, title: each.title ?? shown(each.const) }));
}

/**
 * Return the JSON type of a schema: from `type`, or from what else it says. "any" if it says nothing.
 * @param {Schema} schema
 * @returns {string}
 */
export function typeOf(schema) {
  if (typeof schema.type === "string") return schema.type;
  if (schema.properties || isObject(schema.additionalProperties)) return "object";
  if (schema.items || schema.prefixItems) return "array";
  return "any";
}

/**
 * Name a schema for people.
 * @param {Schema} schema
 * @returns {string}
 */
export function nameOf(schema) {
  const [title, format] = [schema.title, schema.format].map((each) => (typeof each === "string" ? each : ""));
  const count = choices(schema)?.length ?? 0;
  return title || format || (count > 1 ? `one of ${count}` : "") || JSON_TYPES.get(typeOf(schema)) || "any value";
}

/**
 * Return the limits that a schema sets, for people.
 * @param {Schema} schema
 * @returns {string}
 */
export function limitsOf(schema) {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength, minItems, maxItems } = schema;
  const said = [
    minimum !== undefined && `at least ${minimum}`,
    exclusiveMinimum !== undefined && `more than ${exclusiveMinimum}`,
    maximum !== undefined && `at most ${maximum}`,
    exclusiveMaximum !== undefined && `less than ${exclusiveMaximum}`,
    minLength !== undefined && `at least ${minLength} ${minLength === 1 ? "character" : "characters"}`,
    maxLength !== undefined && `at most ${maxLength} characters`,
    minItems !== undefined && `at least ${minItems} items`,
    maxItems !== undefined && `at most ${maxItems} items`,
    schema.multipleOf !== undefined && `a multiple of ${schema.multipleOf}`,
    typeof schema.pattern === "string" && `like ${schema.pattern}`,
  ];
  return said.filter(Boolean).join(", ");
}

/**
 * Return whether a value may be of a schema, by its type only. A form uses it to choose the variant of a union.
 * @param {any} value
 * @param {Schema} schema
 * @returns {boolean}
 */
export function fits(value, schema) {
  const allowed = choices(schema);
  if (allowed) return allowed.some((each) => isSameJson(each.value, value));
  switch (typeOf(schema)) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value) && listOf(schema.required).every((each) => Object.hasOwn(value, each));
    case "integer":
      return isWholeNumber(value);
    case "number":
      return isNumber(value);
    case "any":
      return true;
    default:
      return typeof value === typeOf(schema);
  }
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, any>}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * @param {any} value
 * @returns {any[]}
 */
function listOf(value) {
  return Array.isArray(value) ? value : [];
}

/** @param {unknown} value */
function shown(value) {
  return typeof value === "string" ? value : stringify(value);
}
