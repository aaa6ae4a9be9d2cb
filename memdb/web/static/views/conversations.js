// Conversations: newest first; the words of one as a virtual list; its summary tree beside it.
import { around, button, day, fill, find, findAll, findCheck, FIRST_CHARS, h, headOf, isComposing, marked, number, offerFocus, shown, words } from "../dom.js";
import { failure, get, getText, newest, send } from "../http.js";
import { FeedList, KeyedList } from "../list.js";
import { drawMessage } from "./message.js";

/** @type {typeof import("./forget.js").openForget} */
const openForget = async (...given) => (await import("./forget.js")).openForget(...given);

/** @typedef {import("./tree.js").Kept} Kept */

/** Return three steps for a file without conversations. */
const firstSteps = () => h("div", { class: "empty" }, h("p", {}, "Nothing is stored yet. Three first steps:"), h("ol", {},
  h("li", {}, "Import your conversations: ", h("code", {}, "memdb import FILE chatgpt-export.zip")),
  h("li", {}, "Ask, with / on this page: ", h("code", {}, 'memdb recall FILE "what did I ask about?"')),
  h("li", {}, "Give your coding agent a memory: ", h("code", {}, "memdb agent install claude-code"))));

/** @type {Page.Mount} */
export async function mount(root, ctx) {
  const list = h("section", { class: "pane", "aria-label": "Conversations" });
  const reader = h("section", { class: "pane", "aria-label": "Messages", tabindex: 0 });
  const tree = h("section", { class: "pane third", "aria-label": "Summary tree" });
  const panes = h("div", { class: "panes three" }, list, reader, tree);
  fill(root, panes);
  const rows = h("div", {});
  /** @type {string | null} */
  let open = null; // name of the session that is open
  /** @type {FeedList | null} */
  let feed = null;
  /** @type {Api.SessionHead | null} */
  let head = null;
  /** @type {Set<number>} */
  const selected = new Set();
  /** @type {number | null} */
  let last = null; // seq where a range of selected messages begins
  let params = ctx.params;

  if (ctx.scope.user === undefined) {
    fill(list, headOf(h("h1", { tabindex: -1 }, "Conversations")));
    fill(reader, firstSteps());
    panes.setAttribute("data-open", "");
    return { update: async () => {} };
  }

  /** @param {Api.SessionInfo} one @param {Api.SessionInfo | undefined} before */
  const drawSession = (one, before) => {
    const nodes = [];
    if (!before || day(before.updated_ms) !== day(one.updated_ms)) nodes.push(h("div", { class: "group" }, day(one.updated_ms)));
    nodes.push(h("a", { class: "row", "data-go": true, "data-row": true, "data-session": one.name, href: ctx.href("conversations", { session: one.name }), "aria-current": one.name === open ? "true" : null },
      h("span", { class: "spread" }, words(shown(one.title || one.opening || one.name), "words one-line"), h("span", { class: "meta num" }, number(one.message_count))),
      h("span", { class: "meta one-line" }, one.opening ? `${shown(one.title ? one.opening : one.name)} · ` : "", `${number(one.tokens)} tokens`, one.archived_count ? ` · ${Math.round((100 * one.archived_count) / one.message_count)} % archived` : "")));
    return nodes;
  };
  /** @type {KeyedList<"sessions">} */
  const sessions = new KeyedList(list, rows, {
    noun: "sessions", query: () => ({ ...ctx.scope, order: "updated" }), draw: drawSession, failed: (error) => ctx.problem(error, () => sessions.load()),
    empty: () => firstSteps(),
  });
  const filter = h("input", { type: "search", "aria-label": "Filter conversations by words", placeholder: "filter", value: params.q ?? "" });
  fill(list, headOf(h("h1", { tabindex: -1 }, "Conversations"), filter), rows);

  /** Show the conversations in whose title or messages the words of the filter stand, the best first. */
  const search = newest(async (signal) => get("recall", { ...ctx.scope, query: filter.value, kinds: ["session", "message"], limit: 50, by: "words", min_score: 0, prefix: true }, { signal }));
  const filtered = async () => {
    if (!filter.value.trim()) { await sessions.load(); return; }
    const found = await search();
    if (!found) return;
    const seen = new Set();
    const best = found.hits.filter((hit) => !seen.has(hit.source.session) && seen.add(hit.source.session));
    fill(rows, best.map((hit) => h("a", { class: "row", "data-go": true, "data-row": true, "data-session": hit.source.session, href: ctx.href("conversations", { session: hit.source.session, at: hit.source.seq, q: filter.value }) },
      words(shown(sessions.items.find((one) => one.name === hit.source.session)?.title || hit.source.session), "words one-line"), h("span", { class: "meta" }, marked(hit.text.slice(0, 200), filter.value.split(/\s+/))))),
    !best.length && h("div", { class: "empty" }, "No conversation has these words."));
  };
  filter.addEventListener("input", (event) => { if (!isComposing(event)) { ctx.change({ session: open, q: filter.value }); filtered().catch((error) => fill(rows, ctx.problem(error))); } });

  /** @param {number} seq */
  const light = (seq) => {
    for (const node of findAll(tree, ".node")) {
      node.toggleAttribute("data-lit", Number(node.dataset.first) <= seq && seq <= Number(node.dataset.last));
    }
  };

  /** @type {Kept} */
  let kept = { text: "", expanded: new Set(), isClosed: true }; // of the summary tree
  const drawSummaries = async () => {
    if (open === null || !tree.getClientRects().length) return; // it is not shown
    const mine = kept;
    const session = open;
    try {
      const { drawTree } = await import("./tree.js");
      await drawTree(tree, ctx, session, (seq) => { panes.removeAttribute("data-sheet"); jump(seq); }, mine);
      feed?.report();
    } catch (error) {
      fill(tree, ctx.problem(error));
    }
  };

  const closeSession = () => {
    kept.isClosed = true;
    feed?.close();
    pill.remove();
    feed = null;
    open = null;
    selected.clear();
    last = null;
    panes.removeAttribute("data-open");
  };

  /** @param {number} seq @param {boolean} on */
  const select = (seq, on) => {
    if (on) selected.add(seq);
    else selected.delete(seq);
    drawSelection();
  };
  const selection = h("div", { class: "tools" });
  const drawSelection = () => fill(selection, selected.size ? [`${selected.size} selected`,
    button("Forget …", () => openForget(ctx, { session: open, seqs: [...selected].sort((a, b) => a - b) }, async () => { selected.clear(); drawSelection(); await reopen(); }), { class: "danger" }),
    button("None", () => { selected.clear(); drawSelection(); findAll(reader, "article").forEach((row) => { const box = findCheck(row); if (box) box.checked = false; }); })] : null);

  /** @param {number} seq */
  const jump = async (seq, focus = true) => {
    const row = await feed?.jump(seq, { focus });
    reader.querySelectorAll("[data-here]").forEach((one) => one.removeAttribute("data-here"));
    if (row) row.setAttribute("data-here", "");
    return row;
  };

  /** @param {"compact" | "archive" | "unarchive"} noun @param {Page.Params} body @param {string} sentence */
  const run = (noun, body, sentence) => async () => {
    try {
      await send("POST", noun, { ...ctx.scope, session: open }, body);
      ctx.toast(sentence);
      await reopen();
    } catch (error) {
      ctx.toast(failure(error).message);
    }
  };

  const actions = () => {
    const read = `read?${new URLSearchParams(Object.entries({ ...ctx.scope, session: open }).flatMap(([key, value]) => (value === null || value === undefined ? [] : [[key, value]])))}`;
    const info = sessions.items.find((one) => one.name === open);
    const { node, close } = ctx.dialog("Actions", h("div", { class: "tools" },
      h("a", { href: read, target: "_blank", rel: "noopener" }, "Plain text"),
      button("Copy all as Markdown", async () => { ctx.copy(await getText("messages", { ...ctx.scope, session: open, format: "md" })); }),
      button("Find in it", () => { close(); ctx.go("search", { session: open }); ctx.box.focus(); }),
      button("Copy the link", () => ctx.copy(location.href, "Link copied.")),
      button("The same as a command", () => ctx.copy(`memdb chat show FILE ${JSON.stringify(open)} --user ${JSON.stringify(ctx.scope.user)}`)),
      ctx.readOnly ? null : [
        button("Rename …", () => { close(); rename(); }, { title: "e" }),
        button("Compact", () => { close(); run("compact", {}, "Compacted: the summaries are finished.")(); }),
        info && info.archived_count === info.message_count ? null : button("Archive", () => { close(); run("archive", {}, "Archived.")(); }),
        info && !info.archived_count ? null : button("Unarchive", () => { close(); run("unarchive", {}, "Unarchived.")(); }),
        button("Forget …", () => { close(); openForget(ctx, { session: open }, () => { closeSession(); ctx.go("conversations"); sessions.load(); }); }, { class: "danger" })],
      button("Close", () => close(), { class: "primary" })));
    find(node, "a, button")?.focus();
  };

  const pill = button("", () => { pill.remove(); if (feed && head) { feed.missed = 0; feed.jump(head.last_seq, { end: true }); } }, { class: "pill" });

  /** @param {number} seq */
  const correct = async (seq) => { if (open !== null) (await import("./write.js")).correct(ctx, open, seq, reopen); };
  const rename = async () => { if (open !== null) (await import("./write.js")).rename(ctx, open, reopen); };

  async function reopen() {
    const seq = feed?.seen ?? null;
    const name = open;
    open = null;
    if (name !== null) await openSession(name, seq, false);
    sessions.load();
  }

  /** @param {string} name @param {string | number | null | undefined} place */
  async function openSession(name, place, isFocus = true) {
    const at = Number.isSafeInteger(Number(place)) && Number(place) > 0 ? Number(place) : null;
    closeSession();
    open = name;
    panes.setAttribute("data-open", "");
    for (const row of findAll(rows, "[data-session]")) {
      if (row.dataset.session === name) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    let found;
    try {
      found = await get("session", { ...ctx.scope, session: name });
    } catch (error) {
      const { status } = failure(error);
      if (open === name && status !== 404) fill(reader, ctx.problem(error, () => openSession(name, at)));
      if (status !== 404) return;
    }
    if (open !== name) return;
    if (found?.last_seq === undefined) {
      fill(reader, h("div", { class: "empty" }, h("p", {}, "There is no such conversation: it was forgotten, or never there.")));
      fill(tree);
      return;
    }
    head = found;
    ctx.setTitle(found.title ?? name);
    const where = h("span", { class: "meta num" }, "");
    /** @param {number} seq */
    const tell = (seq) => {
      const most = number(head?.last_seq);
      where.style.minWidth = `${2 * most.length + 5}ch`; // its width depends on the count alone
      where.textContent = `#${number(seq)} of ${most}`;
      light(seq);
    };
    const goTo = h("input", { type: "number", min: 1, max: found.last_seq, "aria-label": "Go to message number", placeholder: "#",
      onchange: () => { const seq = Number(goTo.value); if (seq >= 1) { goTo.blur(); ctx.change({ session: name, at: seq }); jump(Math.min(seq, head?.last_seq ?? seq)); } } });
    goTo.style.width = "7rem";
    const heading = h("h2", { tabindex: -1, "aria-level": 1 }, words(shown(found.title ?? name)));
    fill(reader, headOf(button("‹", () => ctx.up({}), { class: "quiet only-narrow", "aria-label": "Back to the list" }), heading, where, goTo,
      button("Summaries", () => { panes.toggleAttribute("data-sheet"); drawSummaries(); }, { class: "not-wide" }),
      button("Actions", actions, { title: "." }), selection));
    drawSelection();
    feed = new FeedList(reader, {
      count: Math.max(1, found.last_seq),
      load: async (first, limit) => /** @type {Page.Message[]} */ ((await get("messages", { ...ctx.scope, session: name, first_seq: first, limit, max_chars: FIRST_CHARS })).items),
      draw: (message) => drawMessage(message, { selected, select, correct, ctx }),
      name: shown(found.title ?? name),
      moved: (seq) => { if (feed) feed.seen = seq; tell(seq); },
      failed: (error) => { if (!reader.querySelector(".problem")) reader.append(ctx.problem(error, () => openSession(name, at))); },
    });
    if (at) await jump(at, isFocus);
    else await feed.jump(found.last_seq, { end: true });
    if (isFocus && !at) offerFocus(heading);
    if (open !== name) return;
    kept = { text: "", expanded: new Set(), isClosed: false };
    drawSummaries();
  }

  const loading = sessions.load().then(() => (params.q ? filtered() : undefined));
  if (params.session !== undefined) await openSession(params.session, params.at);
  else {
    fill(reader, h("div", { class: "empty" }, "Choose a conversation."));
    await loading;
  }

  return {
    async update(next) {
      const isSame = next.session === open && open !== null;
      params = next;
      if (next.session === undefined) {
        const before = open;
        closeSession();
        fill(reader, h("div", { class: "empty" }, "Choose a conversation."));
        fill(tree);
        findAll(rows, "[data-session]").find((row) => row.dataset.session === before)?.focus();
      } else if (isSame && next.at) await jump(Number(next.at));
      else if (!isSame) await openSession(next.session, next.at);
    },
    async refresh(change = null) {
      if (!filter.value && ctx.concerns(change, ["session", "message", "summary"], "*")) sessions.refresh();
      if (open === null || !ctx.concerns(change, ["session", "message", "summary"], open)) return;
      const isGrown = change?.is_complete && !["session", "message"].some((kind) => change.kinds.includes(kind));
      const now = await get("session", { ...ctx.scope, session: open }).catch(() => null);
      if (!feed || !head) return;
      if (!now || now.last_seq === undefined) { openSession(open, null, false); return; }
      if (ctx.concerns(change, ["summary"])) drawSummaries();
      const more = now.last_seq - head.last_seq;
      if (more > 0) {
        const isAtEnd = reader.scrollTop + reader.clientHeight > reader.scrollHeight - 80;
        const was = head.last_seq;
        head = now;
        if (isGrown) await feed.grow(now.last_seq);
        else await feed.reload(now.last_seq);
        if (isAtEnd) await feed.jump(now.last_seq, { end: true });
        else {
          feed.missed = (feed.missed ?? 0) + now.last_seq - was;
          pill.textContent = `${feed.missed} new ↓`;
          panes.append(pill);
        }
      } else if (!isGrown) {
        head = now;
        await feed.reload(now.last_seq);
      }
    },
    close() {
      if (panes.hasAttribute("data-sheet")) { panes.removeAttribute("data-sheet"); return true; }
      if (open === null) return false;
      ctx.up({});
      return true;
    },
    keys: {
      ".": () => (open === null ? false : actions()),
      "#": () => {
        const row = around("[data-session]")?.dataset.session ?? open; // the one under the focus
        if (row === null) return false;
        openForget(ctx, row === open && selected.size ? { session: open, seqs: [...selected] } : { session: row }, reopen);
        return true;
      },
      e: () => {
        if (open === null) return false;
        const seq = Number(around(".message")?.dataset.seq);
        if (seq) correct(seq);
        else rename();
        return true;
      },
      x: () => { const row = around(".message"); if (row) findCheck(row)?.click(); if (row) last = Number(row.dataset.seq); return Boolean(row); },
      X: () => {
        const seq = Number(around(".message")?.dataset.seq);
        if (!seq) return false;
        const from = last ?? seq;
        for (let one = Math.min(from, seq); one <= Math.max(from, seq); one += 1) selected.add(one);
        last = seq;
        findAll(reader, "article").forEach((row) => { const box = findCheck(row); if (box) box.checked = selected.has(Number(row.dataset.seq)); });
        drawSelection();
        return true;
      },
      c: () => { const row = around(".message"); if (row) find(row, "[aria-label^=Copy]").click(); return Boolean(row); },
    },
    destroy: closeSession,
  };
}
