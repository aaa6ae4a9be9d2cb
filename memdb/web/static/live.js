// The stream of events: one for all tabs of a browser that are seen, none while all are hidden.
// A browser opens six connections to a server at most, so a stream a tab would stop the seventh.

const RETRY_MS = 5000;

/** @typedef {"change" | "ended" | "closing" | "open" | "lost"} Kind */

/**
 * Call the functions of *on* (change, ended, closing, open, lost) for what happens to the file.
 *
 * `change` gets the sessions and kinds that changed; null if that is not known.
 * @param {{ change: (data: Page.Change | null) => unknown, ended: (name: string) => void, closing: () => void, open: () => void, lost: () => void }} on
 */
export function watch(on) {
  const name = new URL(".", location.href).pathname + "events";
  const channel = new BroadcastChannel(name);
  /** @type {AbortController | null} */
  let asking = null; // cancels the wait for the turn of this tab, and ends its turn
  /** @type {string | null} */
  let mark = null; // of the last change that any tab was told
  /** @type {Kind} */
  let state = "lost";

  /** @param {Kind} kind @param {Page.Change | string | null} data */
  const take = (kind, data) => {
    if (kind === "change") {
      const change = typeof data === "string" ? null : data;
      mark = change?.mark ?? mark;
      on.change(change);
      return;
    }
    state = kind;
    if (kind === "ended") on.ended(String(data));
    else on[kind]();
  };
  /** @param {Kind} kind @param {Page.Change | string | null} data */
  const tell = (kind, data = null) => {
    channel.postMessage([kind, data]);
    take(kind, data);
  };
  channel.onmessage = ({ data: [kind, data] }) => {
    if (kind !== "hello") { if (!document.hidden) take(kind, data); return; }
    if (!source) return;
    channel.postMessage([state, null]);
    if (state === "open") on.open(); // a tab that says hello has signed in, perhaps for this tab too
  };

  /** @type {EventSource | null} */
  let source = null;
  /** @type {(signal: AbortSignal) => Promise<void>} */
  const listen = (signal) => new Promise((done) => {
    source = new EventSource(`api/v1/events${mark === null ? "" : `?since=${encodeURIComponent(mark)}`}`);
    const end = () => { source?.close(); source = null; done(); };
    signal.addEventListener("abort", end);
    source.addEventListener("open", () => tell("open"));
    source.addEventListener("error", () => {
      tell("lost");
      if (source?.readyState !== EventSource.CLOSED) return; // it tries again by itself
      close();
      setTimeout(open, RETRY_MS);
    });
    source.addEventListener("change", (event) => tell("change", JSON.parse(event.data)));
    for (const kind of ["replaced", "migrated"]) source.addEventListener(kind, () => { end(); tell("ended", kind); });
    source.addEventListener("closing", () => tell("closing"));
  });

  const close = () => {
    asking?.abort();
    asking = null;
  };
  const open = () => {
    if (asking || document.hidden) return;
    asking = new AbortController();
    const { signal } = asking;
    channel.postMessage(["hello", null]);
    // The tab with the lock has the stream; the next in line continues from the last mark.
    navigator.locks.request(name, { signal }, () => (signal.aborted ? undefined : listen(signal))).catch(() => {});
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else {
      open();
      on.change(null); // what was missed while hidden
    }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
  return { open, close };
}
