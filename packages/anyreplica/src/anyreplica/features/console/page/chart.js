// Draws how fast many calls were answered, and by which replicas.
import { h, MOST_ITEMS, svg, table } from "./dom.js";

/**
 * @typedef {object} Answer of one call
 * @property {string} replica
 * @property {number} at when it arrived, in milliseconds since the first call
 * @property {number} milliseconds how long the call took
 * @property {string} failed why the call failed, or an empty text
 */

const COLOURS = 8;
const WIDTH = 640;
const HEIGHT = 180;
const AXIS_HEIGHT = 20;
/** The limits of the first groups of times, in milliseconds. Those of the next groups are ten times as large. */
const STEPS = [1, 2, 5];

/**
 * Say in one text how many calls were answered, and how fast.
 * @param {Answer[]} answers
 * @param {number} milliseconds how long all calls took
 */
export function verdict(answers, milliseconds) {
  const good = answers.filter(({ failed }) => !failed);
  const times = timesOf(good);
  const at = (/** @type {number} */ share) => percentile(times, share).toFixed(1);
  const lost = answers.length - good.length;
  const reason = answers.find(({ failed }) => failed)?.failed;
  const rate = ((answers.length / milliseconds) * 1000).toFixed(0);
  const replicas = new Set(good.map(({ replica }) => replica)).size;
  const by = replicas === 1 ? "1 replica" : `${replicas} replicas`;
  const text = `${good.length} calls answered by ${by}, ${lost} failed`;
  const speed = `${rate} calls/s; median ${at(0.5)} ms, 95 % within ${at(0.95)} ms, the slowest ${at(1)} ms`;
  return `${text}${reason ? ` (${reason})` : ""}. ${speed}.`;
}

/**
 * Draw each call as a point, the distribution of the times, and the calls of each replica.
 * @param {Answer[]} answers
 * @returns {HTMLElement}
 */
export function chart(answers) {
  const replicas = [...new Set(answers.map(({ replica }) => replica))].filter(Boolean).sort();
  return h("div", {}, points(answers, replicas), distribution(answers), byReplica(answers, replicas));
}

/**
 * @param {Answer[]} answers
 * @param {string[]} replicas
 */
function points(answers, replicas) {
  const longest = Math.max(1, ...answers.map(({ at }) => at));
  const slowest = Math.max(1, ...answers.map(({ milliseconds }) => milliseconds));
  const circles = answers.map(({ replica, at, milliseconds, failed }) =>
    svg("circle", {
      cx: 4 + (at / longest) * (WIDTH - 8),
      cy: HEIGHT - 4 - (milliseconds / slowest) * (HEIGHT - 20),
      r: 3,
      class: failed ? "failed" : `c${Math.max(0, replicas.indexOf(replica)) % COLOURS}`,
    }),
  );
  const [slowestMs, seconds] = [slowest.toFixed(0), (longest / 1000).toFixed(1)];
  const label = `The times of ${answers.length} calls within ${seconds} s. The slowest took ${slowestMs} ms.`;
  const axes = [
    svg("text", { x: 4, y: 12 }, `${slowestMs} ms, the time of a call`),
    svg("text", { x: 4, y: HEIGHT + 14 }, "0 s"),
    svg("text", { x: WIDTH - 4, y: HEIGHT + 14, "text-anchor": "end" }, `${seconds} s since the first call`),
    svg("line", { x1: 0, y1: HEIGHT, x2: WIDTH, y2: HEIGHT, class: "axis" }),
  ];
  const box = `0 0 ${WIDTH} ${HEIGHT + AXIS_HEIGHT}`;
  return svg("svg", { viewBox: box, role: "img", "aria-label": label }, axes, circles);
}

/**
 * The times of the answered calls in groups.
 * @param {Answer[]} answers
 */
function distribution(answers) {
  const times = timesOf(answers.filter(({ failed }) => !failed));
  const groups = [];
  let done = 0;
  for (let number = 0, below = 0; done < times.length; number += 1) {
    const limit = STEPS[number % STEPS.length] * 10 ** Math.floor(number / STEPS.length);
    const end = times.findIndex((each) => each >= limit);
    const count = (end < 0 ? times.length : end) - done;
    if (count || groups.length) groups.push({ title: `${below} to ${limit} ms`, count });
    done += count;
    below = limit;
  }
  const rows = groups.map(({ title, count }) => barRow(title, [count], count / times.length, "c0"));
  return table("Distribution of the times", ["Time of a call", "Calls", "Share"], h("tbody", {}, rows));
}

/**
 * @param {Answer[]} answers
 * @param {string[]} replicas
 */
function byReplica(answers, replicas) {
  const rows = replicas.slice(0, MOST_ITEMS).map((name, index) => {
    const own = answers.filter(({ replica, failed }) => replica === name && !failed);
    const times = timesOf(own);
    const at = (/** @type {number} */ share) => `${percentile(times, share).toFixed(1)} ms`;
    const share = own.length / Math.max(1, answers.length);
    return barRow(h("code", {}, name), [own.length, at(0.5), at(0.99)], share, `c${index % COLOURS}`);
  });
  const columns = ["Replica", "Calls", "Median", "99 % within", "Share"];
  return table("Calls by replica", columns, h("tbody", {}, rows));
}

/**
 * A row of a table that ends with a bar.
 * @param {string | HTMLElement} title
 * @param {(string | number)[]} cells
 * @param {number} share the length of the bar, from 0 to 1
 * @param {string} colour
 */
function barRow(title, cells, share, colour) {
  const bar = svg("rect", { width: share * 100, height: 10, class: colour });
  const whole = { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" };
  const shown = [...cells, svg("svg", whole, bar)].map((each) => h("td", {}, each));
  return h("tr", {}, h("th", { scope: "row" }, title), shown);
}

/**
 * Return the times of answers, the shortest first.
 * @param {Answer[]} answers
 */
function timesOf(answers) {
  return answers.map(({ milliseconds }) => milliseconds).sort((one, other) => one - other);
}

/**
 * @param {number[]} times sorted
 * @param {number} share of the calls that took no longer
 */
function percentile(times, share) {
  return times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
}
