// Reads the replies of the server: an event stream, or one JSON text.

/**
 * @typedef {import("./client.js").Message} Message
 * @typedef {{id: string, message: Message | null}} StreamEvent of a reply; JSON is one event without an id
 */

const BLANK_LINE = /\r?\n\r?\n/;

/**
 * Return the events of a response, as they arrive. A broken connection ends them like any other end.
 * @param {Response} response
 * @returns {AsyncGenerator<StreamEvent>}
 */
export async function* eventsOf(response) {
  if (!(response.headers.get("Content-Type") ?? "").includes("event-stream")) {
    if (response.status !== 202) yield { id: "", message: JSON.parse(await response.text()) };
    return;
  }
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let end = "";
  for (;;) {
    const { done, value } = await reader.read().catch(broken);
    if (done) return; // what is left is not a whole event
    const text = decoder.decode(value, { stream: true });
    const isWhole = BLANK_LINE.test(end + text);
    end = (end + text).slice(-3);
    rest += text;
    if (!isWhole) continue; // so a large event, which arrives in many parts, is searched only once
    const events = rest.split(BLANK_LINE);
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = eventField(event, "data");
      yield { id: eventField(event, "id"), message: data ? JSON.parse(data) : null };
    }
  }
}

/**
 * @param {Error} problem
 * @returns {ReadableStreamReadResult<Uint8Array>}
 */
function broken(problem) {
  if (problem.name === "AbortError") throw problem; // the user has cancelled the call
  return { done: true, value: undefined };
}

/**
 * @param {string} event
 * @param {string} name
 */
function eventField(event, name) {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith(`${name}:`));
  return lines.map((line) => line.slice(name.length + 1).trim()).join("\n");
}
