import { isField } from "./dom.js";

// Single keys: off while typing or composing, with a modifier, or by the setting.

const PANES = ".pane, .page"; // what scrolls

export const KEYS = [
  ["/", "search (also Ctrl K)"],
  [">", "commands, in the box of the search"],
  ["g then c s e a x h m", "go to a view"],
  ["j k ↓ ↑", "next, previous"],
  ["Enter", "open"],
  ["Esc u", "up, close"],
  ["[ ]", "older, newer version"],
  ["n", "add a fact"],
  ["e", "edit: an entry, a message, the title of a conversation"],
  ["p", "pin"],
  ["s", "supersede"],
  ["a r", "accept, reject what waits for a decision"],
  ["x", "select"],
  ["X", "select up to here (Shift x)"],
  ["#", "forget"],
  ["c", "copy text"],
  ["y", "copy link"],
  [".", "actions"],
  ["t", "theme"],
  ["?", "this list"],
];

/** Keys that change what is stored, or choose what to change: none of them on a read-only page. */
export const WRITES = new Set(["n", "e", "a", "r", "p", "s", "x", "X", "#"]);

/**
 * Listen for keys; *run(key)* returns whether it did something.
 * @param {{ run: (key: string) => unknown, goTo: (key: string) => boolean, isOff: () => boolean }} calls
 */
export function listen({ run, goTo, isOff }) {
  let isGoing = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented) return;
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      run("/");
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return; // it closes itself
    if (event.key === "Escape") {
      if (run("Escape")) event.preventDefault();
      return;
    }
    if (isField(event.target) || isOff()) return;
    if (isGoing) {
      isGoing = false;
      if (goTo(event.key)) event.preventDefault();
      return;
    }
    if (event.key === "g") {
      isGoing = true;
      clearTimeout(timer);
      timer = setTimeout(() => { isGoing = false; }, 1500);
      return;
    }
    const isOnButton = event.target instanceof Element && event.target.matches("button, a, summary, input");
    if (isOnButton && ["Enter", " "].includes(event.key)) return;
    if (run(event.key)) event.preventDefault();
  });
}

/**
 * Scroll on in a row that is higher than its pane; returns whether there was more of it.
 * @param {HTMLElement} row
 * @param {number} room height of the pane below its head
 * @param {number} step
 */
function scrollWithin(row, room, step) {
  const pane = row.closest(PANES);
  if (!pane) return false;
  const { bottom } = pane.getBoundingClientRect();
  const { top, bottom: end } = row.getBoundingClientRect();
  const rest = step > 0 ? end - bottom : bottom - room - top;
  if (end - top <= room || rest <= 1) return false;
  pane.scrollBy(0, step * Math.min(rest, room * 0.9));
  return true;
}

/** Return how much of a pane shows rows: all but its head. @param {HTMLElement} row */
function roomOf(row) {
  const pane = row.closest(PANES);
  return pane instanceof HTMLElement ? pane.clientHeight - (Number.parseFloat(pane.style.scrollPaddingTop) || 0) : Infinity;
}

/**
 * Move the focus among *rows* by *step*, and return the row that has it now. One that is higher than
 * its pane is shown from its first line, and left at its end.
 * @param {Iterable<HTMLElement>} rows
 * @param {number} step
 */
export function move(rows, step) {
  const all = [...rows];
  if (!all.length) return null;
  const at = all.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  if (at >= 0 && scrollWithin(all[at], roomOf(all[at]), step)) return all[at];
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: next.offsetHeight > roomOf(next) ? "start" : "nearest" });
  return next;
}
