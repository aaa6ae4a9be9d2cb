// Commands behind ">" in the box on top: a list to type into, to walk with arrows and to run.
import { fill, h } from "./dom.js";

/** @typedef {[label: string, key: string, run: () => unknown]} Command */

/** @type {HTMLUListElement | null} */
let list = null;
/** @type {Command[]} */
let shownCommands = [];
let at = 0;
let leave = () => {};

export const isOpen = () => list !== null;

/** Close the list and empty the box. @param {HTMLInputElement} box */
export function close(box) {
  list?.remove();
  list = null;
  for (const name of ["aria-expanded", "aria-controls", "aria-activedescendant", "role"]) box.removeAttribute(name);
  if (box.value.startsWith(">")) box.value = "";
}

/** Show the *commands* ([label, key, run]) that have every word after the ">"; *back* gives the focus to what they act on. @param {HTMLInputElement} box @param {Command[]} commands */
export function show(box, commands, back = () => box.blur()) {
  leave = back;
  const words = box.value.slice(1).toLowerCase().split(/\s+/).filter(Boolean);
  shownCommands = commands.filter(([label]) => words.every((word) => label.toLowerCase().includes(word)));
  at = 0;
  if (!list) {
    list = h("ul", { class: "palette", role: "listbox", id: "palette", "aria-label": "Commands" });
    box.closest("form")?.append(list);
    box.setAttribute("role", "combobox");
    box.setAttribute("aria-expanded", "true");
    box.setAttribute("aria-controls", "palette");
  }
  draw(box);
}

/** @param {HTMLInputElement} box */
function draw(box) {
  if (!list) return;
  fill(list, shownCommands.map(([label, key], index) => h("li", { class: "row", role: "option", id: `command-${index}`, "aria-selected": String(index === at),
    onpointerdown: (event) => { event.preventDefault(); at = index; run(box); } }, h("span", { class: "spread" }, h("span", {}, label), key && h("kbd", { class: "meta" }, key)))),
  shownCommands.length ? null : h("li", { class: "row", role: "option", "aria-selected": "false", "aria-disabled": "true" }, "No such command"));
  if (shownCommands.length) box.setAttribute("aria-activedescendant", `command-${at}`);
  else box.removeAttribute("aria-activedescendant");
  list.children[at]?.scrollIntoView({ block: "nearest" });
}

/** @param {HTMLInputElement} box */
function run(box) {
  const command = shownCommands[at];
  close(box);
  leave();
  command?.[2]();
}

/** Take a key of the box; returns whether it was one of the list. @param {KeyboardEvent} event @param {HTMLInputElement} box */
export function onKey(event, box) {
  if (!list) return false;
  /** @type {Record<string, number>} */
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  if (steps[event.key]) {
    at = Math.max(0, Math.min(shownCommands.length - 1, at + steps[event.key]));
    draw(box);
  } else if (event.key === "Enter") run(box);
  else if (event.key === "Escape") close(box);
  else return false;
  event.preventDefault();
  return true;
}
