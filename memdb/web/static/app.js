// The shell: signs in, chooses whose memory, shows one view, listens for keys and for changes.
import { button, fill, h, shown } from "./dom.js";
import * as http from "./http.js";
import { KEYS, listen, move } from "./keys.js";
import { watch } from "./live.js";
import * as router from "./router.js";

const state = { scopes: [], scope: null, about: null, view: null, name: "", root: null, stream: null, goneTimer: 0, number: 0 };
const storage = {
  get: (name) => { try { return localStorage.getItem(`memdb.${name}`); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(`memdb.${name}`, value); } catch { /* private window */ } },
};
const live = h("p", { class: "hidden-visually", role: "status", "aria-live": "polite" });
const progress = h("div", { class: "progress" });
const main = h("main", { id: "main", tabindex: -1 });
const rail = h("nav", { class: "rail", "aria-label": "Views" });
const mark = h("span", { class: "meta", role: "status" }, "");
const box = h("input", { type: "search", "aria-label": "Search everything", placeholder: "Search everything  (/)", autocomplete: "off", spellcheck: "false" });

const withScope = (params = {}) => ({ user: state.scope?.user, app: state.scope?.app === "default" ? null : state.scope?.app, ...params });

/** What a view gets: whose memory, what may be done, and the parts that all views share. */
function context(params, signal) {
  return {
    params, signal, scope: withScope(), about: state.about, readOnly: state.about.read_only, storage,
    href: (view, more) => router.href(view, withScope(more)),
    go: (view, more) => router.go(view, withScope(more)),
    change: (more) => router.change(withScope(more)),
    up: (more) => router.up(withScope(more)),
    announce, toast, dialog, problem, copy, box,
    setTitle: (text) => { document.title = `${shown(text)} · ${shown(state.about.file)} · memdb`; },
    refresh: () => state.view?.refresh?.(),
  };
}

function announce(text) {
  live.textContent = "";
  live.textContent = text;
}

/** Show a sentence for ten seconds, with a button that undoes what it says. */
export function toast(text, undo = null) {
  document.querySelector(".toast")?.remove();
  const node = h("div", { class: "toast", role: "status" }, text,
    undo && button("Undo", async () => {
      node.remove();
      try {
        await undo();
        toast("Undone.");
      } catch (error) {
        toast(error.message);
      }
    }));
  document.body.append(node);
  setTimeout(() => node.remove(), 10000);
}

/** Open a dialog with a heading; the focus goes back when it closes. */
function dialog(title, ...children) {
  const before = document.activeElement;
  const heading = h("h2", { id: "dialog-title" }, title);
  const node = h("dialog", { "aria-labelledby": "dialog-title" }, heading, children);
  node.addEventListener("close", () => {
    node.remove();
    if (before?.isConnected) before.focus();
  });
  document.body.append(node);
  node.showModal();
  return { node, close: () => node.close() };
}

/** Return what failed, what is safe, what to do, and the code to copy. */
export function problem(error, again = null) {
  if (error.name === "AbortError") return h("div", {});
  const code = error.code ?? error.name;
  return h("div", { class: "problem", role: "alert" },
    h("p", {}, h("strong", {}, shown(error.message))),
    h("p", {}, "Nothing was changed by this."),
    error.todo && h("p", {}, error.todo),
    h("div", { class: "tools" }, h("span", { class: "code meta" }, `code ${code}`),
      button("Copy", () => copy(`${code}: ${error.message}`)), again && button("Try again", again)));
}

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

function page(title, ...children) {
  state.view?.destroy?.();
  state.view = null;
  state.name = "";
  const heading = h("h1", { tabindex: -1 }, title);
  fill(main, h("div", { class: "page" }, heading, h("div", { class: "empty" }, children)));
  document.title = `${title} · memdb`;
  heading.focus();
}

function notSignedIn() {
  page("Not signed in",
    h("p", {}, "This page shows a memory only to the browser that opened its link. A link works once, for two minutes."),
    h("p", {}, "Press Enter in the terminal where ", h("code", {}, "memdb web"), " runs: it prints a new link. Open that one."));
}

function goneAway() {
  mark.textContent = "server gone";
  clearTimeout(state.goneTimer);
  state.goneTimer = setTimeout(async () => {
    try {
      const about = await http.whatIsServed();
      if (about === null) return notSignedIn();
      mark.textContent = "";
      if (state.name) state.view?.refresh?.();
      else await show(false);
    } catch {
      goneAway();
    }
    return undefined;
  }, 2000);
}

function chooseScope() {
  const links = state.scopes.map((scope) => h("a", { class: "row", "data-go": true,
    href: router.href(router.place().view, { user: scope.user, app: scope.app === "default" ? null : scope.app }) },
    scope.user === "" ? "shared by all users" : shown(scope.user), scope.app === "default" ? null : h("span", { class: "meta" }, ` of ${shown(scope.app)}`)));
  page("Whose memory?", h("p", {}, "Two people's memories are never mixed on one page."), links);
}

function drawRail(name) {
  const user = state.scope ? (state.scope.user === "" ? "shared" : shown(state.scope.user)) : "";
  fill(rail, router.VIEWS.map(([view, label, key]) =>
    h("a", { "data-go": true, href: router.href(view, withScope()), "aria-current": view === name ? "page" : null, title: `g ${key}` }, label)),
    h("div", { class: "foot" },
      h("p", {}, shown(state.about.file)),
      user && h("p", {}, "memory of ", h("b", {}, user)),
      state.scopes.length > 1 && button("Another memory", chooseScope, { class: "link" }),
      state.about.read_only && h("p", {}, "read-only"),
      button("Sign out", async () => { await http.signOut(); notSignedIn(); }, { class: "link" })));
}

/** Show what the address says. */
async function show(isNew) {
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
    const module = await import(`./views/${name}.js`);
    if (mine !== state.number) return undefined;
    state.view = await module.mount(root, context(params, null));
  } catch (error) {
    if (mine === state.number) fill(root, problem(error, () => { state.name = ""; show(false); }));
  }
  if (isNew && document.activeElement !== box) (root.querySelector("h1[tabindex]") ?? main).focus({ preventScroll: true });
  return undefined;
}

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

function help() {
  const isOff = h("input", { type: "checkbox", checked: storage.get("keys") === "off",
    onchange: (event) => storage.set("keys", event.target.checked ? "off" : "on") });
  dialog("Keys", h("table", {}, h("tbody", {}, KEYS.map(([key, what]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, what))))),
    h("p", {}, h("label", {}, isOff, "Turn single keys off")),
    button("Close", (event) => event.target.closest("dialog").close(), { class: "primary" }));
}

function runKey(key) {
  const keys = state.view?.keys ?? {};
  if (key === "/") {
    box.focus();
    box.select();
    return true;
  }
  if (key === "?") { help(); return true; }
  if (key === "t") { nextTheme(); return true; }
  if (key === "y") { copy(location.href, "Link copied."); return true; }
  if (keys[key]) return keys[key]() !== false;
  if (["j", "ArrowDown"].includes(key)) return Boolean(move(main.querySelectorAll("[data-row]"), 1));
  if (["k", "ArrowUp"].includes(key)) return Boolean(move(main.querySelectorAll("[data-row]"), -1));
  if (["Escape", "u"].includes(key)) {
    const field = document.activeElement;
    if (key === "Escape" && field?.matches?.("input, textarea")) { field.blur(); main.focus(); return true; }
    return state.view?.close?.() ?? false;
  }
  return false;
}

async function begin() {
  // Before anything else: the secret leaves the address and the history.
  const secret = new URLSearchParams(location.hash.slice(1)).get("k");
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  setTheme(storage.get("theme"));
  const search = h("form", { role: "search", onsubmit: (event) => {
    event.preventDefault();
    if (router.place().view !== "search") router.go("search", withScope({ q: box.value }));
  } }, box);
  document.body.append(progress,
    h("header", { class: "top" }, h("span", { class: "brand" }, "memdb"), search, mark,
      button("Theme", nextTheme, { class: "quiet", title: "t" }), button("Keys", help, { class: "quiet", title: "?", "aria-label": "Keys and help" })),
    rail, main, live);
  let open = 0;
  http.listeners.busy = (by) => { open += by; progress.toggleAttribute("data-on", open > 0); };
  http.listeners.signIn = notSignedIn;
  http.listeners.gone = goneAway;
  if (secret && !(await http.signIn(secret)) && !(await http.whatIsServed())) return notSignedIn();
  state.about = await http.whatIsServed();
  if (!state.about) return notSignedIn();
  state.scopes = (await http.get("scopes")).items;
  box.addEventListener("input", (event) => {
    // Typing in the one box on top opens the view of search, which takes over.
    if (event.isComposing || router.place().view === "search" || box.value.length < 2) return;
    router.go("search", withScope({ q: box.value }));
  });
  listen({
    run: runKey,
    goTo: (key) => {
      const found = router.VIEWS.find(([, , one]) => one === key);
      if (found) router.go(found[0], withScope());
      return Boolean(found);
    },
    isOff: () => storage.get("keys") === "off",
  });
  state.stream = watch({
    open: () => { mark.textContent = "● live"; },
    lost: () => { mark.textContent = "○ not live"; },
    change: async () => {
      if (!state.scopes.length) state.scopes = (await http.get("scopes").catch(() => ({ items: [] }))).items;
      state.view?.refresh?.();
    },
    replaced: () => page("The file was replaced", h("p", {}, "Another file is at this path now. What you saw is not what it holds."), h("p", {}, "Start ", h("code", {}, "memdb web"), " again.")),
    closing: () => { mark.textContent = "server gone"; goneAway(); },
  });
  return router.start(show);
}

begin().catch((error) => fill(main, problem(error, () => location.reload())));
