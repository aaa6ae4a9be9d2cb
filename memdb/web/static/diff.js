// Differences of two texts by lines, and within a line by words. Bounded in work.
import { h, shown } from "./dom.js";

const MOST_PAIRS = 2000000;

/** @typedef {[" " | "-" | "+", string]} Step */

/**
 * Return what to keep, take away and add; null if the texts are too large to compare here.
 * @param {string[]} before
 * @param {string[]} after
 * @returns {Step[] | null}
 */
export function compare(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let endA = before.length;
  let endB = after.length;
  while (endA > start && endB > start && before[endA - 1] === after[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const rows = endA - start;
  const columns = endB - start;
  if (rows * columns > MOST_PAIRS) return null;
  const length = new Uint16Array((rows + 1) * (columns + 1));
  /** @type {(row: number, column: number) => number} */
  const at = (row, column) => row * (columns + 1) + column;
  for (let row = rows - 1; row >= 0; row -= 1) {
    for (let column = columns - 1; column >= 0; column -= 1) {
      length[at(row, column)] = before[start + row] === after[start + column]
        ? length[at(row + 1, column + 1)] + 1
        : Math.max(length[at(row + 1, column)], length[at(row, column + 1)]);
    }
  }
  /** @type {(one: string) => Step} */
  const same = (one) => [" ", one];
  const found = before.slice(0, start).map(same);
  let row = 0;
  let column = 0;
  while (row < rows || column < columns) {
    if (row < rows && column < columns && before[start + row] === after[start + column]) {
      found.push([" ", before[start + row]]);
      row += 1;
      column += 1;
    } else if (row < rows && (column >= columns || length[at(row + 1, column)] >= length[at(row, column + 1)])) {
      found.push(["-", before[start + row]]);
      row += 1;
    } else {
      found.push(["+", after[start + column]]);
      column += 1;
    }
  }
  return found.concat(before.slice(endA).map(same));
}

/** @param {unknown} text @returns {string[]} */
const split = (text) => String(text ?? "").match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

/** Return one text with words taken away and added, as `del` and `ins`. @type {(before: string, after: string) => HTMLElement} */
export function wordDiff(before, after) {
  const found = compare(split(before), split(after));
  if (!found) return h("p", {}, "Too long to compare word by word.");
  const node = h("p", { class: "words diff-words", dir: "auto" });
  for (const [kind, part] of found) {
    node.append(kind === " " ? shown(part) : h(kind === "-" ? "del" : "ins", {}, shown(part)));
  }
  return node;
}

/** Return a table of lines: number before, number after, + or −, text; equal runs are folded. @type {(before: string, after: string) => HTMLElement | null} */
export function lineDiff(before, after) {
  const found = compare(String(before).split("\n"), String(after).split("\n"));
  if (!found) return null;
  const near = new Set();
  found.forEach(([kind], index) => {
    if (kind !== " ") for (let by = -3; by <= 3; by += 1) near.add(index + by);
  });
  let old = 0;
  let now = 0;
  let isFolded = false;
  /** @type {HTMLElement[]} */
  const rows = [];
  found.forEach(([kind, line], index) => {
    old += kind === "+" ? 0 : 1;
    now += kind === "-" ? 0 : 1;
    if (!near.has(index)) {
      if (!isFolded) rows.push(h("tr", { class: "fold" }, h("td", { colspan: 4 }, "equal lines")));
      isFolded = true;
      return;
    }
    isFolded = false;
    const sign = { "-": "−", "+": "+", " ": " " }[kind];
    rows.push(h("tr", { class: { "-": "removed", "+": "added", " ": "" }[kind] },
      h("td", { class: "num meta" }, kind === "+" ? "" : String(old)),
      h("td", { class: "num meta" }, kind === "-" ? "" : String(now)),
      h("td", { "aria-label": { "-": "removed", "+": "added", " ": "equal" }[kind] }, sign),
      h("td", {}, h("span", { class: "code", dir: "auto" }, shown(line)))));
  });
  if (!found.some(([kind]) => kind !== " ")) return h("p", {}, "The two versions are equal.");
  return h("table", { class: "diff" }, h("tbody", {}, rows));
}
