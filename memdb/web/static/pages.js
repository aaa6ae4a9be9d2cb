// Pages of their own for what ends a visit: what happened, what is safe, what to do.
import { h } from "./dom.js";

const START = ["Start ", h("code", {}, "memdb web"), " again, and open the link that it prints."];
const ENTER = ["Press Enter in the terminal where ", h("code", {}, "memdb web"), " runs: it prints a new link. Open that one."];

/**
 * Titles and paragraphs by the code of what happened.
 * @type {Record<string, [string, ...(string | Node)[][]]>}
 */
export const PAGES = {
  sign_in: ["Not signed in", ["This page shows a memory only to the browser that opened its link. A link works once, for two minutes."], ENTER],
  link_used: ["This link was used already", ["A link opens the page in one browser, once. If somebody else used it, stop the server with Ctrl-C."], ENTER],
  link_old: ["This link is too old", ["A link works for two minutes after it was printed. Nothing was shown to anybody by it."], ENTER],
  replaced: ["The file was replaced", ["The path has another file now, or none. What was saved before is in the file that was there."], START],
  migrated: ["A newer memdb took this file over", ["The file has a newer format now. Nothing is lost, but this page would read it wrongly."],
    ["Upgrade with ", h("code", {}, "pip install -U memdb-sqlite"), ", then start ", h("code", {}, "memdb web"), " again."]],
  busy: ["The file is busy", ["Another program has been writing for a long time. The file is safe, and this page changed nothing."]],
  closed: ["The file was closed", ["The server ends. What was saved is in the file."], START],
};

/** Codes of the server after which nothing on the page can go on, with their page. @type {Record<string, string>} */
export const ENDS = { replaced: "replaced", file: "replaced", other_file: "replaced", schema_new: "migrated", closed: "closed" };

/** What is safe after an error, by its code. @type {Record<string, string>} */
export const SAFE = {
  full: "The disk is full. Nothing was written, and the file is intact. Your text is still here.",
  busy: "Nothing was written. Your text is still here.",
  conflict: "Nothing was changed by this.",
};

/** Return a sentence that counts down and then calls *again*; it stops when it leaves the page. @param {number} seconds @param {() => unknown} again */
export function countDown(seconds, again) {
  const node = h("p", { class: "meta", role: "timer" }, `Trying again in ${seconds} s.`);
  let left = seconds;
  const timer = setInterval(() => {
    if (!node.isConnected) { clearInterval(timer); return; }
    left -= 1;
    node.textContent = left > 0 ? `Trying again in ${left} s.` : "Trying again …";
    if (left > 0) return;
    clearInterval(timer);
    again();
  }, 1000);
  return node;
}

/** Return the paragraphs of a page. @param {string} name */
export function paragraphs(name) {
  const [, ...all] = PAGES[name];
  return all.map((parts) => h("p", {}, parts.map((part) => (typeof part === "string" ? part : part.cloneNode(true)))));
}
