// Elements by calls: attributes as attributes, children as text nodes. Nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "line", "circle", "path", "g", "pattern", "defs", "title", "text"]);
// Control, zero-width, bidirectional and tag characters: drawn as boxes, so that nothing hides.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|[\ud800-\udfff]/u;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "gu");
const JOINERS = new Set(["\u200c", "\u200d"]);
export const FIRST_CHARS = 4000;
const CHUNK_CHARS = 100000;

/**
 * Return a new element; attributes that are null or false are left out, `on…` are listeners.
 * @type {Page.Make}
 */
export const h = (/** @type {string} */ tag, /** @type {Page.Attributes | null} */ attributes = {}, /** @type {Page.Child[]} */ ...children) => {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, /** @type {Page.SvgTag} */ (tag)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") Object.assign(node, { [name]: value });
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return /** @type {HTMLElement & SVGElement} */ (node);
};

/** @type {(node: Element, children: Page.Child[]) => void} */
function add(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(node, child);
    else if (child !== null && child !== undefined && child !== false) node.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Put *children* in the place of what *node* holds. A button with the focus has it in its new form too.
 * @template {Element} T
 * @param {T} node
 * @param {...Page.Child} children
 */
export function fill(node, ...children) {
  const focused = document.activeElement;
  const label = focused instanceof HTMLButtonElement && node.contains(focused) ? focused.textContent : null;
  node.replaceChildren();
  add(node, children);
  if (label !== null) focusButton(node, label);
  return node;
}

const heads = new ResizeObserver((all) => {
  for (const { target } of all) {
    if (!target.isConnected) heads.unobserve(target);
    else if (target.parentElement) target.parentElement.style.scrollPaddingTop = `${target.getBoundingClientRect().height}px`;
  }
});

/** Return what sticks to the top of a pane; nothing that the pane scrolls to stands below it. @param {...Page.Child} children */
export function headOf(...children) {
  const node = h("div", { class: "head" }, ...children);
  heads.observe(node);
  return node;
}

/**
 * Return stored words as a string in which hidden characters are named: for titles and names.
 * @param {unknown} words
 */
export function shown(words) {
  return String(words ?? "").replace(HIDDEN_ALL, (one, at, all) => {
    if (JOINERS.has(one) && /\p{L}|\p{M}|\p{So}|\p{Sk}|\ufe0f/u.test(all.slice(Math.max(0, at - 2), at))) return one;
    return "\u25af";
  });
}

/**
 * Return stored words as isolated text nodes; hidden characters are boxes that say their number.
 * @param {unknown} value
 */
export function words(value, className = "words") {
  const node = h("span", { class: className, dir: "auto" });
  addWords(node, String(value ?? ""));
  return node;
}

/** @type {(node: Element, value: string) => void} */
function addWords(node, value) {
  if (!HIDDEN.test(value)) {
    node.append(value);
    return;
  }
  let from = 0;
  let boxes = 0;
  for (const match of value.matchAll(HIDDEN_ALL)) {
    if (shown(value.slice(Math.max(0, match.index - 2), match.index + match[0].length)).endsWith(match[0])) continue;
    if (++boxes > 200) {
      node.append(shown(value.slice(from)));
      return;
    }
    node.append(value.slice(from, match.index));
    const code = (match[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    node.append(h("span", { class: "box", title: `U+${code}` }, `${code}`));
    from = match.index + match[0].length;
  }
  node.append(value.slice(from));
}

/**
 * Return long stored words: the first part, then a button for all of it.
 * @param {unknown} value
 */
export function longWords(value, className = "words") {
  const whole = String(value ?? "");
  if (whole.length <= FIRST_CHARS) return words(whole, className);
  const node = h("div", { class: className, dir: "auto" });
  let end = FIRST_CHARS;
  addWords(node, whole.slice(0, end));
  const more = h("button", { class: "link", type: "button", onclick: () => {
    const to = end + CHUNK_CHARS;
    const part = words(whole.slice(end, to), "");
    more.before(part);
    end = to;
    if (end >= whole.length) more.remove();
    else more.textContent = `the next part of ${size(whole.length)}`;
  } }, `all ${size(whole.length)}`);
  node.append(more);
  return node;
}

/** Return whether two words are forms of one: one begins the other, or they begin alike for most of their length. @param {string} a @param {string} b */
function isForm(a, b) {
  let same = 0;
  while (same < a.length && a[same] === b[same]) same += 1;
  return same >= Math.min(a.length, b.length, Math.max(5, 0.7 * Math.max(a.length, b.length)));
}

/**
 * Return text in which the words of a query are marked.
 * @param {unknown} value
 * @param {string[]} terms
 */
export function marked(value, terms) {
  const text = String(value ?? "").slice(0, FIRST_CHARS);
  const asked = terms.map((term) => term.toLowerCase()).filter((term) => term.length > 1);
  const node = h("span", { class: "words", dir: "auto" });
  if (!asked.length) {
    addWords(node, text);
    return node;
  }
  let from = 0;
  for (const match of text.matchAll(/[\p{L}\p{N}]+/gu)) {
    const low = match[0].toLowerCase();
    if (!asked.some((term) => isForm(low, term))) continue;
    addWords(node, text.slice(from, match.index));
    node.append(h("mark", {}, match[0]));
    from = match.index + match[0].length;
  }
  addWords(node, text.slice(from));
  return node;
}

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  let rest = Number(bytes) || 0;
  while (rest >= 1000 && unit < 3) {
    rest /= 1000;
    unit += 1;
  }
  return `${unit && rest < 100 ? rest.toFixed(1) : Math.round(rest)} ${units[unit]}`;
}

/** @param {number | string | null | undefined} value */
export const number = (value) => Number(value ?? 0).toLocaleString("en");
/** @type {(count: number, noun: string) => string} */
export const plural = (count, noun) =>
  `${number(count)} ${count === 1 ? noun : noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`}`;

/** @type {{ zone: string, of: Intl.DateTimeFormat | null }} */
const format = { zone: "", of: null };

/** Show times in a zone, such as "Europe/Oslo"; "" is that of this computer. False if it is unknown. @param {string} zone */
export function setZone(zone) {
  try {
    format.of = new Intl.DateTimeFormat("en-GB", { timeZone: zone || undefined, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
    format.zone = zone;
    return true;
  } catch {
    return false;
  }
}

export const zone = () => format.zone;

/** Return the parts of a time in the zone that is shown, as numbers. @param {number} ms */
export function partsOf(ms) {
  if (!format.of) setZone("");
  /** @type {Record<string, number>} */
  const found = {};
  for (const { type, value } of format.of?.formatToParts(new Date(ms)) ?? []) found[type] = Number(value);
  return found;
}

/** Return by how many minutes the zone that is shown is ahead of UTC at a time. */
export function offsetMinutes(ms = Date.now()) {
  const { year, month, day: date, hour, minute, second } = partsOf(ms);
  return Math.round((Date.UTC(year, month - 1, date, hour, minute, second) - Math.floor(ms / 1000) * 1000) / 60000);
}

/** @param {number} value */
const pad = (value) => String(value).padStart(2, "0");
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/** Return the hour and minute of a time, "" without one. @param {number | null | undefined} ms */
export function clock(ms) {
  if (!ms) return "";
  const { hour, minute } = partsOf(ms);
  return `${pad(hour)}:${pad(minute)}`;
}

/** Return the day of a time, with the year if it is not this one. @param {number | null | undefined} ms */
export function day(ms) {
  if (!ms) return "no date";
  const { year, month, day: date } = partsOf(ms);
  return `${date} ${MONTHS[month - 1]}${year === partsOf(Date.now()).year ? "" : ` ${year}`}`;
}

/** Return how long ago a time is, in words; the date stands in the title. @param {number | null | undefined} ms */
export function age(ms) {
  if (!ms) return h("span", { class: "meta" }, "no date");
  const days = Math.max(0, (Date.now() - ms) / 86400000);
  /** @type {[number, string][]} */
  const steps = [[365, "year"], [30.4, "month"], [7, "week"], [1, "day"], [1 / 24, "hour"], [1 / 1440, "minute"]];
  const step = steps.find(([length]) => days >= length);
  const text = step ? `${plural(Math.floor(days / step[0]), step[1])} ago` : "now";
  return h("time", { class: "meta", datetime: new Date(ms).toISOString(), title: `${day(ms)} ${clock(ms)}` }, text);
}

/**
 * Return a button.
 * @param {Page.Child} label
 * @param {(event: Event) => unknown} onclick
 * @param {Page.Attributes} attributes
 */
export function button(label, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, label);
}

/**
 * Return the elements below *root* that a selector names.
 * @param {ParentNode} root
 * @param {string} selector
 */
export const findAll = (root, selector) => [...root.querySelectorAll(selector)].filter((node) => node instanceof HTMLElement);

/**
 * Return the first of them.
 * @param {ParentNode} root
 * @param {string} selector
 */
export const find = (root, selector) => findAll(root, selector)[0];

/** Return the checkbox below *root*. @param {ParentNode} root */
export function findCheck(root) {
  const box = root.querySelector("input[type=checkbox]");
  return box instanceof HTMLInputElement ? box : null;
}

/** Give the focus to the button below *root* that is called so. @param {ParentNode} root @param {string | null} label */
export const focusButton = (root, label) => findAll(root, "button").find((one) => one.textContent === label)?.focus({ preventScroll: true });

/** Return what has the focus, or stands around it, and is named by a selector. @param {string} selector */
export function around(selector) {
  const node = document.activeElement?.closest(selector);
  return node instanceof HTMLElement ? node : null;
}

/** Return whether a character is still being composed. @param {Event} event */
export const isComposing = (event) => (event instanceof InputEvent || event instanceof KeyboardEvent) && event.isComposing;

/** @param {EventTarget | null} node */
export const isField = (node) => node instanceof Element && node.matches("input:not([type=checkbox]):not([type=range]), textarea, select, [contenteditable]");

/** Give the focus to what was just loaded, but never take it from somebody who types. @param {HTMLElement | null | undefined} node */
export function offerFocus(node) {
  if (!isField(document.activeElement) && !document.querySelector("dialog[open]")) node?.focus({ preventScroll: true });
}
