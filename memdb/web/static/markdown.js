// Markdown as elements: titles, lists, tables, quotes, code, emphasis. No HTML, and nothing to follow.
import { h, words } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const TITLE = /^ {0,3}#{1,6}\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const STARTS = [FENCE, TITLE, QUOTE, ITEM, RULE];
const INLINE = /(`+)(?!`)(.+?)(?<!`)\1(?!`)|\*\*(\S(?:[^*]*\S)?)\*\*|(?<![\p{L}\p{N}*])\*([^\s*](?:[^*]*[^\s*])?)\*(?![\p{L}\p{N}*])|~~(\S(?:[^~]*\S)?)~~/gu;
const MOST_DEPTH = 8;

/** Return text with its emphasis and its code. @param {string} text @returns {Page.Child[]} */
function inline(text) {
  /** @type {Page.Child[]} */
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, , code, strong, em, del] = match;
    if (match.index > from) nodes.push(words(text.slice(from, match.index)));
    nodes.push(code !== undefined ? h("code", {}, words(code, "code")) : strong !== undefined ? h("strong", {}, inline(strong)) : em !== undefined ? h("em", {}, inline(em)) : h("s", {}, inline(del)));
    from = match.index + whole.length;
  }
  if (from < text.length) nodes.push(words(text.slice(from)));
  return nodes;
}

/** Return the cells of a line of a table. @param {string} line */
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((one) => one.trim());

/** Return the elements of some lines. @param {string[]} lines @param {number} depth @returns {Page.Child[]} */
function blocks(lines, depth) {
  if (depth > MOST_DEPTH) return [words(lines.join("\n"))];
  /** @type {Page.Child[]} */
  const nodes = [];
  let at = 0;
  /** Take the lines that follow for as long as they fit. @param {(line: string) => boolean} fits */
  const take = (fits) => {
    const from = at;
    while (at < lines.length && fits(lines[at])) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at];
    const [fence, title, item] = [FENCE.exec(line), TITLE.exec(line), ITEM.exec(line)];
    if (!line.trim()) at += 1;
    else if (fence) {
      at += 1;
      nodes.push(h("pre", {}, words(take((one) => !one.trimStart().startsWith(fence[1])).join("\n"), "code")));
      at += 1;
    } else if (title) {
      nodes.push(h("p", {}, h("strong", {}, inline(title[1]))));
      at += 1;
    } else if (RULE.test(line)) {
      nodes.push(h("hr"));
      at += 1;
    } else if (QUOTE.test(line)) nodes.push(h("blockquote", {}, blocks(take((one) => QUOTE.test(one)).map((one) => QUOTE.exec(one)?.[1] ?? ""), depth + 1)));
    else if (item) {
      const [, { length: indent }, number] = item;
      const items = [];
      for (let next = /** @type {RegExpExecArray | null} */ (item); next && (next[2] === undefined) === (number === undefined); next = at < lines.length ? ITEM.exec(lines[at]) : null) {
        if (next[1].length > indent + 1 || next[1].length < indent) break;
        at += 1;
        const rest = take((one) => /^\s/.test(one) && one.length - one.trimStart().length > indent && one.trim() !== "");
        items.push(h("li", {}, inline(next[3]), rest.length > 0 && blocks(rest.map((one) => one.slice(Math.min(indent + 2, one.length - one.trimStart().length))), depth + 1)));
      }
      nodes.push(number === undefined ? h("ul", {}, items) : h("ol", { start: number }, items));
    } else if (line.includes("|") && DIVIDER.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) {
      at += 2;
      const rows = take((one) => one.includes("|")).map(cells);
      nodes.push(h("div", { class: "wide", tabindex: 0 }, h("table", {}, h("thead", {}, h("tr", {}, cells(line).map((one) => h("th", { scope: "col" }, inline(one))))),
        h("tbody", {}, rows.map((row) => h("tr", {}, row.map((one) => h("td", {}, inline(one)))))))));
    } else {
      const said = take((one) => one.trim() !== "" && !STARTS.some((start) => start.test(one)));
      nodes.push(h("p", {}, inline(said.join("\n"))));
    }
  }
  return nodes;
}

/** Return a text as the Markdown that it is. @param {string} text */
export const markdown = (text) => h("div", { class: "read md" }, blocks(text.split("\n"), 0));
