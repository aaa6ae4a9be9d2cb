// The shell: signs in, chooses whose memory, shows one view, listens for keys and for changes.
import { button, fill, find, findAll, h, isComposing, offerFocus, setZone, shown, zone } from "./dom.js";
import * as http from "./http.js";
import { KEYS, WRITES, listen, move } from "./keys.js";
import { watch } from "./live.js";
import { ENDS, PAGES, SAFE, countDown, paragraphs } from "./pages.js";
import * as router from "./router.js";

/**
 * @typedef {object} State
 * @property {Page.Scope[]} scopes
 * @property {Page.Scope | null} scope
 * @property {Page.About} about
 * @property {Page.View | null} view
 * @property {string} name
 * @property {ReturnType<typeof watch> | null} stream
 * @property {ReturnType<typeof setTimeout> | undefined} goneTimer
 * @property {number} number
 * @property {boolean} isEnded
 * @property {boolean} isOut nobody is signed in here; another tab may do it for this one
 * @property {boolean} isStale a part of the page did not come, and only a new page can ask for it again
 */

/** @type {State} */
const state = { scopes: [], scope: null, about: { file: "", read_only: true, asks_network: false, logs_contexts: false, user: "" }, view: null, name: "", stream: null, goneTimer: undefined, number: 0, isEnded: false, isOut: false, isStale: false };
const storage = {
  /** @param {string} name */
  get: (name) => { try { return localStorage.getItem(`memdb.${name}`); } catch { return null; } },
  /** @param {string} name @param {string} value */
  set: (name, value) => { try { localStorage.setItem(`memdb.${name}`, value); } catch { /* private window */ } },
};
const live = h("p", { class: "hidden-visually", role: "status", "aria-live": "polite" });
const progress = h("div", { class: "progress" });
const main = h("main", { id: "main", tabindex: -1 });
const rail = h("nav", { class: "rail", "aria-label": "Views" });
const mark = h("span", { class: "meta", role: "status" }, "");
const box = h("input", { type: "search", "aria-label": "Search everything", placeholder: "Search everything  (/)", autocomplete: "off", spellcheck: "false" });

const banner = h("div", { class: "banner", role: "alert" }, "The server does not answer. What you see may be old, and nothing that you do is saved. Start ", h("code", {}, "memdb web"), " again; this page tries every 2 seconds.");

const REST = new Set(["artifacts", "health", "map"]); // behind "More" on a narrow screen
/** @type {typeof import("./palette.js") | null} */
let palette = null;
/** @type {HTMLElement | null} */
let cameFrom = null; // what had the focus before the box on top

/** @param {Page.Params} params */
const withScope = (params = {}) => ({ user: state.scope?.user, app: state.scope?.app === "default" ? null : state.scope?.app, ...params });

/** What a view gets: whose memory, what may be done, and the parts that all views share. @param {Page.Place} params @returns {Page.Context} */
function context(params) {
  const { user, app } = state.scope ?? {};
  const mine = state.number;
  return {
    params, scope: { user, app: app === "default" ? null : app }, about: state.about, readOnly: state.about.read_only, storage,
    href: (view, more) => router.href(view, withScope(more)),
    go: (view, more) => router.go(view, withScope(more)),
    change: (more) => router.change(withScope(more)),
    up: (more) => router.up(withScope(more)),
    announce, toast, dialog, problem, copy, box, concerns,
    setTitle: (text) => { if (mine === state.number) document.title = `${shown(text)} · ${shown(state.about.file)} · memdb`; },
    refresh: () => state.view?.refresh?.(),
  };
}

/** @param {string} text */
function announce(text) {
  live.textContent = "";
  live.textContent = text;
}

/** Show a sentence for ten seconds, with a button that undoes what it says. @param {string} text @param {(() => unknown) | null} undo */
export function toast(text, undo = null) {
  document.querySelector(".toast")?.remove();
  /** @type {EventTarget | null} */
  let before = null; // what had the focus
  const node = h("div", { class: "toast", role: "status" }, text,
    undo && button("Undo", async () => {
      node.remove();
      try {
        await undo();
        toast("Undone.");
      } catch (error) {
        toast(http.failure(error).message);
      }
      if (document.activeElement === document.body) focusAgain(before instanceof Element ? before : null);
    }, { onfocus: (event) => { before = event.relatedTarget; } }));
  (find(document, "dialog[open]") ?? document.body).append(node); // below a dialog nothing is seen or spoken
  setTimeout(() => node.remove(), 10000);
}

/** Give the focus back to what had it; to the heading of the view, if that is gone. @param {Element | null} before */
function focusAgain(before) {
  const node = before instanceof HTMLElement && before.isConnected && before !== document.body ? before : find(main, "h1") ?? main;
  node.focus({ preventScroll: true });
  if (document.activeElement !== node) main.focus(); // it is not shown
}

/** Open a dialog: its heading is what is read first; the focus goes back when it closes. @param {string} title @param {...Page.Child} children */
function dialog(title, ...children) {
  const before = document.activeElement;
  const heading = h("h2", { id: "dialog-title", tabindex: -1, autofocus: true }, title);
  const node = h("dialog", { "aria-labelledby": "dialog-title" }, heading, children);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find(node, "button.primary:enabled")?.click();
  });
  const texts = () => [...node.querySelectorAll("textarea")].map((one) => one.value).join("\n");
  const given = texts();
  let isWarned = false;
  node.addEventListener("cancel", (event) => {
    if (isWarned || texts() === given) return;
    isWarned = true;
    event.preventDefault();
    node.append(h("p", { class: "warn", role: "status" }, "This is not saved. Escape again throws it away."));
  });
  node.addEventListener("click", (event) => { if (event.target instanceof Element && event.target.closest("a[data-go]")) node.close(); });
  node.addEventListener("close", () => {
    node.remove();
    if (document.activeElement === document.body) focusAgain(before); // else the browser did, or a command
  });
  document.body.append(node);
  node.showModal();
  return { node, close: () => node.close() };
}

/** Return what failed, what is safe, what to do, and the code to copy. @param {unknown} thrown @param {(() => unknown) | null} again */
export function problem(thrown, again = null) {
  const error = http.failure(thrown);
  if (error.name === "AbortError") return h("div", {});
  const code = error.code ?? error.name;
  return h("div", { class: "problem", role: "alert" },
    h("p", {}, h("strong", {}, shown(error.message))),
    h("p", {}, SAFE[code] ?? "Nothing was changed by this."),
    error.todo && h("p", {}, error.todo),
    code === "busy" && again && countDown(5, again),
    h("div", { class: "tools" }, h("span", { class: "code meta" }, `code ${code}`),
      button("Copy", () => copy(`${code}: ${error.message}`)), again && button("Try again", again)));
}

/** @param {string} text */
async function copy(text, what = "Copied.") {
  try {
    await navigator.clipboard.writeText(text);
    toast(what);
  } catch {
    const area = h("textarea", { rows: 8, readonly: true, "aria-label": "Text to copy", value: text });
    dialog("Copy this", area);
    area.select();
  }
}

/** Return whether a change (null: any) is about one of *kinds*, or about a session of this memory. @param {Page.Change | null | undefined} change @param {string[]} kinds @param {string | null} session */
function concerns(change, kinds, session = null) {
  if (!change || !change.is_complete || kinds.some((kind) => change.kinds.includes(kind))) return true;
  return session !== null && change.sessions.some((one) => one.user === state.scope?.user && one.app === state.scope?.app && (session === "*" || one.session === session));
}

/** @param {string} title @param {...Page.Child} children */
function page(title, ...children) {
  state.number += 1;
  state.view?.destroy?.();
  state.view = null;
  state.name = "";
  const heading = h("h1", { tabindex: -1 }, title);
  fill(main, h("div", { class: "page" }, heading, h("div", { class: "empty" }, children)));
  document.title = `${title} · memdb`;
  heading.focus();
}

function notSignedIn(code = "sign_in") {
  state.isOut = true;
  page(PAGES[code][0], paragraphs(code));
}

/** Say what ended the visit; nothing on the page goes on. @param {string} name */
function ended(name) {
  if (state.isEnded) return;
  state.isEnded = true;
  state.stream?.close();
  clearTimeout(state.goneTimer);
  document.querySelectorAll("dialog").forEach((one) => one.close());
  mark.textContent = "";
  banner.remove();
  page(PAGES[name][0], paragraphs(name));
}

/** Show that the file is busy, and try again by itself. */
function busy() {
  const again = () => { state.name = ""; show(false); };
  page(PAGES.busy[0], paragraphs("busy"), countDown(5, again), button("Try now", again));
}

/** Say that nobody answers, and ask every two seconds until somebody does. */
function goneAway() {
  if (state.isEnded) return;
  mark.textContent = "not connected";
  if (!banner.isConnected) document.body.append(banner);
  clearTimeout(state.goneTimer);
  state.goneTimer = setTimeout(async () => {
    try {
      const about = await http.whatIsServed();
      state.goneTimer = undefined;
      banner.remove();
      if (about === null) return notSignedIn();
      mark.textContent = "";
      if (state.isStale) location.reload();
      else if (state.view) state.view.refresh?.();
      else await redraw();
    } catch {
      goneAway();
    }
    return undefined;
  }, 2000);
}

/** Say that no changes come; and if no answers come either, that the server is gone. */
function lost() {
  if (state.goneTimer !== undefined) return;
  mark.textContent = "○ not live";
  http.whatIsServed().catch(goneAway);
}

function chooseScope() {
  const links = state.scopes.map((scope) => h("a", { class: "row", "data-go": true,
    href: router.href(router.place().view, { user: scope.user, app: scope.app === "default" ? null : scope.app }) },
    scope.user === "" ? "shared by all users" : shown(scope.user), scope.app === "default" ? null : h("span", { class: "meta" }, ` of ${shown(scope.app)}`)));
  page("Whose memory?", h("p", {}, "Two people's memories are never mixed on one page."), links);
}

/** Return a choice of the zone that times are shown in; it is kept for this browser. */
function zonePicker() {
  const all = ["", "UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? []).filter((one) => one !== "UTC")];
  const select = h("select", { "aria-label": "Time zone", onchange: () => {
    setZone(select.value);
    storage.set("zone", select.value);
    redraw();
  } }, h("option", { value: zone() }, zone() || "local time"));
  const fillAll = () => {
    if (select.childElementCount > 1) return;
    fill(select, all.map((one) => h("option", { value: one, selected: one === zone() }, one || "local time")));
  };
  for (const event of ["pointerdown", "focus"]) select.addEventListener(event, fillAll);
  return select;
}

/** Redraw the view and the rail. */
function redraw() {
  state.isOut = false;
  state.name = "";
  return show(false);
}

async function signOut() {
  await http.signOut();
  notSignedIn();
}

/** Show what has no room in the bar of a narrow screen. */
function more() {
  const { node, close } = dialog("More", h("nav", { "aria-label": "More views" }, router.VIEWS.filter(([view]) => REST.has(view)).map(([view, label]) =>
    h("a", { class: "row", "data-go": true, href: router.href(view, withScope()), onclick: () => close() }, label))),
    h("p", { class: "meta" }, shown(state.about.file), state.scope ? ` · memory of ${shown(state.scope.user || "all")}` : "", state.about.read_only ? " · read-only" : ""),
    h("p", {}, h("label", {}, "Times in", zonePicker())),
    h("div", { class: "tools" }, state.scopes.length > 1 && button("Another memory", () => { close(); chooseScope(); }), button("Theme", nextTheme), button("Keys", () => { close(); help(); }),
      button("Sign out", () => { close(); signOut(); }), button("Close", () => close(), { class: "primary" })));
  node.querySelector("a")?.focus();
}

/** Return the commands behind ">". @returns {import("./palette.js").Command[]} */
function commands() {
  /** @type {(label: string | undefined, key: string, run: () => unknown) => import("./palette.js").Command[]} */
  const command = (label, key, run) => (label ? [[`${label[0].toUpperCase()}${label.slice(1)}`, key, run]] : []);
  const scope = new URLSearchParams(Object.entries(withScope()).flatMap(([name, value]) => (value === null || value === undefined ? [] : [[name, String(value)]])));
  return [
    ...Object.entries(state.view?.keys ?? {}).filter(([key]) => isAllowed(key)).flatMap(([key, run]) => command(KEYS.find(([one]) => one === key)?.[1], key, run)),
    ...router.VIEWS.flatMap(([view, label, key]) => command(`Go to ${label.toLowerCase()}`, `g ${key}`, () => goTo(view))),
    ...command(isAllowed("n") ? "Add a fact" : "", "n", add),
    ["Theme: light or dark", "t", nextTheme], ["Keys and help", "?", help], ["Copy link", "y", () => copy(location.href, "Link copied.")],
    ["Times in UTC", "", () => { setZone("UTC"); storage.set("zone", "UTC"); redraw(); }],
    ["Times in local time", "", () => { setZone(""); storage.set("zone", ""); redraw(); }],
    ...(state.scopes.length > 1 ? command("Another memory", "", chooseScope) : []),
    ...command(state.scope ? "Export this memory" : "", "", () => h("a", { href: `api/v1/export?${scope}`, download: "memory.jsonl" }).click()),
    ["Sign out", "", signOut],
  ];
}

/** @param {string} name */
function drawRail(name) {
  const user = state.scope ? (state.scope.user === "" ? "shared" : shown(state.scope.user)) : "";
  fill(rail, router.VIEWS.map(([view, label, key]) =>
    h("a", { "data-go": true, class: REST.has(view) ? "rest" : null, href: router.href(view, withScope()), "aria-current": view === name ? "page" : null, title: `g ${key}` }, label)),
    button("More", more, { class: REST.has(name) ? "more here" : "more", "aria-haspopup": "dialog" }),
    h("div", { class: "foot" },
      h("p", {}, zonePicker()),
      h("p", {}, shown(state.about.file)),
      user && h("p", {}, "memory of ", h("b", {}, user)),
      state.scopes.length > 1 && button("Another memory", chooseScope, { class: "link" }),
      state.about.read_only && h("p", {}, "read-only"),
      button("Sign out", signOut, { class: "link" })));
}

/** Load a module. For a browser one that failed has failed for as long as the page is open. @param {string} path */
const load = (path) => import(path).catch((error) => {
  if (!(error instanceof TypeError)) throw error;
  state.isStale = true;
  throw http.gone();
});

/** Show what the address says. @param {boolean} isNew @returns {Promise<void>} */
async function show(isNew) {
  if (state.isEnded) return undefined;
  const { view: name, params } = router.place();
  const wanted = state.scopes.find((one) => one.user === params.user && one.app === (params.app ?? "default"));
  state.scope = wanted ?? (params.user === undefined && state.scopes.length === 1 ? state.scopes[0] : null);
  if (!state.scope && params.user !== undefined) state.scope = { user: params.user, app: params.app ?? "default" };
  if (!state.scope && state.scopes.length > 1 && name !== "health") return chooseScope();
  drawRail(name);
  const key = `${name} ${state.scope?.user} ${state.scope?.app}`;
  if (state.name === key && state.view?.update) {
    await state.view.update(params);
    return undefined;
  }
  const mine = (state.number += 1);
  state.view?.destroy?.();
  state.view = null;
  state.name = key;
  document.title = `${name} · ${shown(state.about.file)} · memdb`;
  const root = h("div", { class: "view" });
  root.style.height = "100%";
  fill(main, root);
  try {
    const module = await load(`./views/${name}.js`);
    if (mine !== state.number) return undefined;
    const view = await module.mount(root, context(params));
    if (mine !== state.number) return view.destroy?.(); // left while it was loaded
    state.view = view;
  } catch (error) {
    if (mine !== state.number) return undefined;
    if (http.failure(error).code === "busy") busy();
    else fill(root, problem(error, () => (state.isStale ? location.reload() : redraw())));
  }
  if (isNew && !root.contains(document.activeElement)) offerFocus(root.querySelector("h1") ?? main);
  return undefined;
}

/** @param {string | null} theme */
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}

function nextTheme() {
  const isDark = document.documentElement.dataset.theme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  setTheme(isDark ? "light" : "dark");
  storage.set("theme", isDark ? "light" : "dark");
  announce(isDark ? "light theme" : "dark theme");
}

/** Return whether a key does something here: no writes on a read-only page. @param {string} key */
const isAllowed = (key) => !(state.about.read_only && WRITES.has(key));

/** Open a view; in that of the search one types at once. @param {string} view */
function goTo(view) {
  if (view === "search") box.focus();
  router.go(view, withScope());
}

/** Open a dialog to store a fact, in whatever view. */
async function add() {
  try {
    (await load("./views/write.js")).add(context(router.place().params));
  } catch (error) {
    toast(http.failure(error).message);
  }
}

function help() {
  const isOff = h("input", { type: "checkbox", checked: storage.get("keys") === "off" });
  isOff.addEventListener("change", () => storage.set("keys", isOff.checked ? "off" : "on"));
  const { close } = dialog("Keys", h("table", {}, h("tbody", {}, KEYS.filter(([key]) => isAllowed(key)).map(([key, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, what))))),
    h("p", {}, h("label", {}, isOff, "Turn single keys off")),
    h("div", { class: "tools" }, button("Close", () => close(), { class: "primary" }), button("Commands", () => { close(); runKey(">"); })));
}

/** @param {string} key */
function runKey(key) {
  const keys = state.view?.keys ?? {};
  if (key === "/" || key === ">") {
    box.focus();
    if (key === ">") { box.value = ">"; box.dispatchEvent(new Event("input", { bubbles: true })); return true; }
    box.select();
    return true;
  }
  if (key === "?") { help(); return true; }
  if (key === "n" && isAllowed(key)) { add(); return true; }
  if (key === "t") { nextTheme(); return true; }
  if (key === "y") { copy(location.href, "Link copied."); return true; }
  if (keys[key] && isAllowed(key)) return keys[key]() !== false;
  if (["j", "ArrowDown"].includes(key)) return Boolean(move(findAll(main, "[data-row]"), 1));
  if (["k", "ArrowUp"].includes(key)) return Boolean(move(findAll(main, "[data-row]"), -1));
  if (["Escape", "u"].includes(key)) {
    const field = document.activeElement;
    const opened = field?.closest("details[open]");
    if (key === "Escape" && opened instanceof HTMLDetailsElement) {
      opened.open = false;
      find(opened, "summary").focus();
      return true;
    }
    if (key === "Escape" && field instanceof HTMLElement && field.matches("input, textarea")) { focusAgain(field === box ? cameFrom : null); return true; }
    return state.view?.close?.() ?? false;
  }
  return false;
}

/** Return whose memory the file holds. @returns {Promise<Page.Scope[]>} */
const scopes = async () => (await http.get("scopes")).items.map(({ user, app }) => ({ user, app }));

async function begin() {
  // A new link in the tab of an old one changes nothing but what stands after the "#".
  addEventListener("hashchange", () => { if (location.hash.startsWith("#k=")) location.reload(); });
  // Before anything else: the secret leaves the address and the history.
  const secret = new URLSearchParams(location.hash.slice(1)).get("k");
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  setTheme(storage.get("theme"));
  if (!setZone(storage.get("zone") ?? "")) setZone("");
  const search = h("form", { role: "search", onsubmit: (event) => {
    event.preventDefault();
    if (box.value.startsWith(">")) return;
    if (router.place().view !== "search") router.go("search", withScope({ q: box.value }));
  } }, box);
  const adder = button("+ Add", add, { title: "n", hidden: true, class: "add" });
  document.body.append(progress,
    h("header", { class: "top" }, h("span", { class: "brand" }, "memdb"), search, adder, mark,
      button("Theme", nextTheme, { class: "quiet", title: "t" }), button("Keys", help, { class: "quiet", title: "?", "aria-label": "Keys and help" })),
    rail, main, live);
  let open = 0;
  http.listeners.busy = (by) => { open += by; progress.toggleAttribute("data-on", open > 0); };
  http.listeners.signIn = () => notSignedIn();
  http.listeners.ended = (code = "") => { if (ENDS[code]) ended(ENDS[code]); };
  http.listeners.gone = goneAway;
  const refused = secret ? await http.signIn(secret) : "";
  if (refused && !(await http.whatIsServed())) return notSignedIn(PAGES[refused] ? refused : "sign_in");
  const about = await http.whatIsServed();
  if (!about) return notSignedIn();
  state.about = about;
  adder.hidden = about.read_only;
  state.scopes = await scopes();
  // Commands come before the search: what is typed after ">" is no question.
  box.addEventListener("input", async (event) => {
    if (!box.value.startsWith(">")) { if (palette?.isOpen()) palette.close(box); return; }
    event.stopImmediatePropagation();
    try {
      palette ??= await load("./palette.js");
    } catch (error) {
      toast(http.failure(error).message);
    }
    if (box.value.startsWith(">")) palette?.show(box, commands(), () => focusAgain(cameFrom));
  });
  box.addEventListener("keydown", (event) => {
    if (palette?.onKey(event, box)) event.stopImmediatePropagation();
  });
  // Commands act on what had the focus before the box.
  box.addEventListener("focus", ({ relatedTarget }) => { cameFrom = relatedTarget instanceof HTMLElement ? relatedTarget : null; });
  box.addEventListener("blur", () => { if (palette?.isOpen()) palette.close(box); });
  box.addEventListener("input", (event) => {
    // Typing in the one box on top opens the view of search, which takes over.
    if (isComposing(event) || router.place().view === "search" || box.value.length < 2) return;
    router.go("search", withScope({ q: box.value }));
  });
  listen({
    run: runKey,
    goTo: (key) => {
      const found = router.VIEWS.find(([, , one]) => one === key);
      if (found) goTo(found[0]);
      return Boolean(found);
    },
    isOff: () => storage.get("keys") === "off",
  });
  state.stream = watch({
    open: () => {
      mark.textContent = "● live";
      if (state.isOut) redraw();
    },
    lost,
    change: async (change) => {
      if (!state.scopes.length) {
        state.scopes = await scopes().catch(() => []);
        if (state.scopes.length) { await redraw(); return; } // not the page: somebody may be typing
      }
      state.view?.refresh?.(change);
    },
    ended,
    closing: () => goneAway(),
  });
  return router.start(show);
}

begin().catch((error) => {
  if (state.isEnded) return;
  state.isStale = true;
  fill(main, problem(error instanceof TypeError ? http.gone() : error, () => location.reload()));
});
