// The address is the whole state: a view and its parameters.

export const VIEWS = [
  ["conversations", "Conversations", "c"],
  ["search", "Search", "s"],
  ["entries", "Entries", "e"],
  ["artifacts", "Artifacts", "a"],
  ["context", "Context", "x"],
  ["health", "Health", "h"],
  ["map", "Map", "m"],
];

/** @type {(isNew: boolean) => unknown} */
let listener = () => undefined;

/**
 * Return the view and the parameters of the address.
 * @returns {{ view: string, params: Page.Place }}
 */
export function place() {
  const name = location.pathname.split("/").pop() || "conversations";
  const view = VIEWS.some(([one]) => one === name) ? name : "conversations";
  return { view, params: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** Return the address of a view; parameters that are empty are left out, but the user. @param {string} view @param {Page.Params} params */
export function href(view, params = {}) {
  const kept = Object.entries(params).filter(([name, value]) =>
    value !== null && value !== undefined && (value !== "" || name === "user"));
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `${view}${text ? `?${text}` : ""}`;
}

/** Open a place: Back returns to this one. @param {string} view @param {Page.Params} params */
export function go(view, params = {}) {
  history.pushState({ depth: (history.state?.depth ?? 0) + 1 }, "", href(view, params));
  return listener(true);
}

/** Change the address in its place: for typing and sliding. @param {Page.Params} params */
export function change(params) {
  const { view } = place();
  history.replaceState(history.state, "", href(view, params));
}

/** Go up: back if we came from here, else to the view without what is open. @param {Page.Params} params */
export function up(params) {
  if (history.state?.depth) history.back();
  else go(place().view, params);
}

/** Call *opened* for each place that is opened. @param {(isNew: boolean) => unknown} opened */
export function start(opened) {
  listener = opened;
  addEventListener("popstate", () => opened(false));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-go]") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    history.pushState({ depth: (history.state?.depth ?? 0) + 1 }, "", link.getAttribute("href"));
    listener(true);
  });
  return opened(false);
}
