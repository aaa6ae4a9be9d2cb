// Bars drawn with attributes of SVG, which the policy lets through.
import { h, number } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 8;

/**
 * Return the bar of a score from 0 to 1, with a tick at the floor.
 * @param {number} score
 * @param {number | null | undefined} floor
 * @param {string} sentence
 */
export function scoreBar(score, floor, sentence) {
  const width = Math.max(0, Math.min(1, score)) * WIDTH;
  const tick = Math.max(0, Math.min(1, floor ?? 0.5)) * WIDTH;
  return h("svg", { class: "bar", width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": sentence },
    h("rect", { class: "bar-ground", width: WIDTH, height: HEIGHT, rx: 2 }),
    h("rect", { class: "bar-fill", width, height: HEIGHT, rx: 2 }),
    h("line", { class: "bar-tick", x1: tick, x2: tick, y1: 0, y2: HEIGHT }));
}

/** Return importance as ten cells. @param {number} value */
export function importance(value) {
  const cells = [];
  for (let cell = 0; cell < 10; cell += 1) {
    cells.push(h("rect", { class: cell < value ? "bar-fill" : "bar-ground", x: cell * 8, width: 6, height: HEIGHT, rx: 1 }));
  }
  return h("svg", { class: "bar", width: 80, height: HEIGHT, viewBox: `0 0 80 ${HEIGHT}`, role: "img", "aria-label": `importance ${value} of 10` }, cells);
}

/**
 * Return one bar as wide as *total*, a segment for each [kind, amount], the rest empty.
 * @param {[string, number][]} parts
 * @param {number} total
 * @param {string} sentence
 */
export function segments(parts, total, sentence) {
  let x = 0;
  const drawn = parts.map(([kind, amount]) => {
    const width = (amount / Math.max(1, total)) * 1000;
    const node = h("rect", { class: `seg seg-${kind.replace(/[^a-z]/g, "")}`, x, width, height: 16 }, h("title", {}, `${kind}: ${number(amount)}`));
    x += width;
    return node;
  });
  return h("svg", { class: "segments", viewBox: "0 0 1000 16", preserveAspectRatio: "none", role: "img", "aria-label": sentence },
    h("rect", { class: "bar-ground", width: 1000, height: 16 }), drawn);
}

/** Return a table of terms; a real one, for readers of screens too. @param {Record<string, number | null>} explanation */
export function terms(explanation) {
  const rows = Object.entries(explanation).map(([name, value]) =>
    h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "num" }, value?.toFixed(4) ?? "∞")));
  return h("table", { class: "terms" }, h("caption", {}, "Each term of the score"), h("tbody", {}, rows));
}
