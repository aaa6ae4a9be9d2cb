import { isField } from "./dom.js";

// Single keys: off while typing or composing, with a modifier, or by the setting.

export const KEYS = [
  ["/", "search (also Ctrl K)"],
  [">", "commands, in the box of the search"],
  ["g then c s e a x h m", "go to a view"],
  ["j k ↓ ↑", "next, previous"],
  ["Enter", "open"],
  ["Esc u", "up, close"],
  ["[ ]", "older, newer version"],
  ["e", "edit"],
  ["p", "pin"],
  ["s", "supersede"],
  ["x", "select"],
  ["X", "select up to here (Shift x)"],
  ["#", "forget"],
  ["c", "copy text"],
  ["y", "copy link"],
  [".", "actions"],
  ["t", "theme"],
  ["?", "this list"],
];

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
 * Move the focus among *rows* by *step*, and return the row that has it now.
 * @param {Iterable<HTMLElement>} rows
 * @param {number} step
 */
export function move(rows, step) {
  const all = [...rows];
  if (!all.length) return null;
  const at = all.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return next;
}
