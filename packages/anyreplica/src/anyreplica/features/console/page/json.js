// Reads and writes JSON. A whole number that JavaScript would round, because it is beyond 2^53, keeps its digits.
// It becomes a BigInt, which is neither an object nor a number, and which every text can contain.

/**
 * Write a number with exactly these digits. Older browsers cannot: they have no such function, and round the number.
 * @type {((digits: string) => unknown) | undefined}
 */
const rawJSON = /** @type {any} */ (JSON).rawJSON;

const WHOLE_NUMBER = /^[+-]?\d+$/;
/** Only a text with so many digits in a row can have a number that would be rounded. */
const MANY_DIGITS = /\d{16}/;
/** A number with more digits is rounded. To read it exactly would take too long. */
const MOST_DIGITS = 1000;

/**
 * Return a whole number with all its digits: a BigInt if the browser would round it. Any other number stays as it is.
 * @param {string} digits the number as text
 * @param {number} rounded the same number, as the browser reads it
 * @returns {number | bigint}
 */
export function exactNumber(digits, rounded) {
  if (!rawJSON || Number.isSafeInteger(rounded)) return rounded;
  return digits.length <= MOST_DIGITS && WHOLE_NUMBER.test(digits) ? BigInt(digits) : rounded;
}

/**
 * Read a JSON text.
 * @param {string} text
 * @returns {any}
 */
export function parseJson(text) {
  if (!rawJSON || !MANY_DIGITS.test(text)) return JSON.parse(text);
  try {
    return JSON.parse(text, /** @type {any} */ (revive));
  } catch (problem) {
    if (problem instanceof RangeError) return JSON.parse(text); // it has too many levels for a function per value
    throw problem;
  }
}

/**
 * @param {string} _key
 * @param {any} value
 * @param {{source?: string} | undefined} context the value as text
 */
function revive(_key, value, context) {
  return typeof value === "number" ? exactNumber(context?.source ?? "", value) : value;
}

/**
 * Write a value as a JSON text.
 * @param {any} value
 * @param {number} [indent]
 * @returns {string}
 */
export function stringify(value, indent) {
  return JSON.stringify(value, writable, indent);
}

/**
 * @param {string} _key
 * @param {any} value
 */
function writable(_key, value) {
  return typeof value === "bigint" && rawJSON ? rawJSON(String(value)) : value;
}

/**
 * Return whether two values are the same as JSON texts.
 * @param {any} one
 * @param {any} other
 */
export function isSameJson(one, other) {
  return stringify(one) === stringify(other);
}

/**
 * Show a JSON value as text.
 * @param {unknown} value
 */
export function pretty(value) {
  try {
    return stringify(value, 2) ?? ""; // undefined has no text
  } catch {
    return "This value has too many levels to show it.";
  }
}

/**
 * Return whether a value is a number, rounded or exact.
 * @param {unknown} value
 * @returns {value is number | bigint}
 */
export function isNumber(value) {
  return typeof value === "number" || typeof value === "bigint";
}

/**
 * Return whether a value is a whole number, rounded or exact.
 * @param {unknown} value
 * @returns {value is number | bigint}
 */
export function isWholeNumber(value) {
  return typeof value === "bigint" || Number.isInteger(value);
}
