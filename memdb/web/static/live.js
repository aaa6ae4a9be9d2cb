// The stream of events: open while the tab is seen, closed while it is hidden.

/** Call the functions of *on* (change, replaced, closing, open, lost) for what happens to the file. */
export function watch(on) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource("api/v1/events");
    source.addEventListener("open", () => on.open());
    source.addEventListener("change", () => on.change());
    source.addEventListener("replaced", () => { close(); on.replaced(); });
    source.addEventListener("closing", () => { close(); on.closing(); });
    source.addEventListener("error", () => on.lost());
  };
  const close = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else {
      open();
      on.change(); // what was missed while hidden
    }
  });
  addEventListener("pagehide", close);
  open();
  return { open, close };
}
