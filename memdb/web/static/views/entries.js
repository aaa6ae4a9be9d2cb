// Entries: by category, with history, source and what can be done; as they were at any time.
import { importance } from "../bars.js";
import { age, around, button, clock, day, fill, find, findAll, findCheck, h, headOf, isComposing, longWords, number, offerFocus, plural, shown, words } from "../dom.js";
import { wordDiff } from "../diff.js";
import { address as addressOf, failure, get, send } from "../http.js";
import { KeyedList } from "../list.js";
import { entryActions } from "./entry_actions.js";
import { openForget } from "./forget.js";

const FORMATS = ["jsonl", "csv", "md"];
const STEPS = 1000;
const DECIDE = "decide"; // the state of what waits for a decision
const MOST_COUNTED = 100;
/** @type {Record<string, string>} */
const DOUBTS = { untrusted: "It comes from the assistant, a tool or another program, and not from a user.", flagged: "It reads like an order to a model." };
const COUNTS = "SELECT category, count(*), sum(pinned) FROM entries_view WHERE app = :app AND user_name = :user AND status = 'active' GROUP BY category ORDER BY 2 DESC, 1 LIMIT 200";

/** Return the session and the first message that an entry was learnt from; "" without a session. @param {{session: string | null, first_seq: number | null}} entry */
const placeOf = (entry) => entry.session === null ? "" : `${shown(entry.session)}${entry.first_seq === null ? "" : `#${entry.first_seq}`}`;

/** @type {Page.Mount} */
export async function mount(root, ctx) {
  const list = h("section", { class: "pane", "aria-label": "Entries" });
  const detail = h("section", { class: "pane pad", "aria-label": "Entry", tabindex: 0 });
  const panes = h("div", { class: "panes" }, list, detail);
  const chips = h("div", { class: "tools tight", role: "group", "aria-label": "Categories" });
  const rows = h("div", {});
  const slider = h("input", { type: "range", min: 0, max: STEPS, value: STEPS, "aria-label": "As of" });
  const label = h("output", { class: "meta" }, "now");
  const off = h("input", { type: "checkbox" });
  const filter = h("input", { type: "search", "aria-label": "Filter entries by words", placeholder: "filter" });
  const selected = new Set();
  const selection = h("div", { class: "tools" });
  /** @type {Page.Id | null} */
  let last = null; // id where a range of selected entries begins
  let params = ctx.params;
  let span = [Date.now() - 86400000, Date.now()];
  let pinnedCategories = new Set();
  /** @type {Page.Id | null} */
  let open = null;
  panes.style.gridTemplateColumns = "";
  fill(root, panes);
  fill(list, headOf(h("h1", { tabindex: -1 }, "Entries"), filter, chips,
    h("label", {}, "as of", slider), label, h("label", { class: "meta" }, off, "show outdated entries"),
    h("details", { class: "meta" }, h("summary", {}, "Export"), h("div", { class: "tools" }, FORMATS.map((format) => button(format.toUpperCase(), () => {
      const link = h("a", { href: addressOf("entries", { ...keyed.query(), order: null, format }), download: `entries.${format}` });
      link.click();
    })))), selection), rows);

  /** @param {Api.Entry} entry */
  const isAlways = (entry) => entry.pinned || pinnedCategories.has(entry.category);
  /** @param {Api.Entry} entry */
  const drawRow = (entry) => {
    const text = String(entry.text);
    const select = ctx.readOnly ? null : h("input", { type: "checkbox", "aria-label": `Select entry: ${shown(text.slice(0, 60))}`, checked: selected.has(entry.id),
      onchange: (event) => { if (event.target.checked) selected.add(entry.id); else selected.delete(entry.id); last = entry.id; drawSelection(); } });
    const link = h("a", { class: "row", "data-go": true, "data-row": true, "data-entry": entry.id, href: ctx.href("entries", { ...filters(), entry: entry.id }), "aria-current": entry.id === open ? "true" : null },
      h("span", { class: "spread meta" }, h("span", { class: "kind kind-entry" }, isAlways(entry) ? (entry.pinned ? "★ " : "☆ ") : "◆ ", shown(entry.category)),
        entry.active === false ? h("span", { class: "warn" }, entry.superseded_by ? "superseded" : "off") : entry.outdated_by ? h("span", { class: "meta" }, "older") : null),
      words(text.length > 300 ? `${text.slice(0, 300)} …` : text, "words"),
      h("span", { class: "spread meta" }, importance(entry.importance), h("span", {}, placeOf(entry)), h("span", { class: "num" }, day(entry.updated_ms))));
    return h("div", { class: "pick" }, link, select, params.state === DECIDE && drawQuestion(entry));
  };

  /** Return why an entry waits for a decision, with both answers. @param {Api.Entry} entry */
  const drawQuestion = (entry) => {
    const newer = h("span", {});
    if (entry.outdated_by !== null) get("entry", { ...ctx.scope, id: entry.outdated_by }).then((one) => fill(newer, words(one.text))).catch(() => {});
    return h("div", { class: "question meta" }, entry.outdated_by !== null ? [`Seems to be outdated by entry ${entry.outdated_by}: `, newer] : DOUBTS[entry.trust] ?? "",
      ctx.readOnly ? null : h("div", { class: "tools tight" }, button("Accept", () => actions.decide(entry, true), { title: "a", "aria-label": `Accept ${entry.outdated_by ?? entry.id}` }),
        button("Reject", () => actions.decide(entry, false), { title: "r", "aria-label": `Reject ${entry.outdated_by ?? entry.id}` })));
  };
  const filters = () => ({ category: params.category, state: params.state, q: params.q, asof: params.asof });
  const asOf = () => (params.asof ? Number(params.asof) : null);
  const keyed = new KeyedList(list, rows, {
    noun: "entries",
    query: () => ({ ...ctx.scope, category: params.category && params.category !== "*" ? params.category : null, pinned: params.category === "*" ? true : null,
      inactive: params.state === "all" && !asOf() ? true : null, undecided: params.state === DECIDE ? true : null, as_of: asOf(), order: asOf() || params.state === "all" ? null : "updated" }),
    draw: drawRow, failed: (error) => ctx.problem(error, load),
    empty: () => h("div", { class: "empty" }, asOf() ? h("p", {}, "Nothing of this was known then.") : [h("p", {}, "No entries here."), h("p", {}, h("code", {}, "db.scope(user).remember(\"…\")"), " keeps a fact; ", h("code", {}, "memdb extract"), " learns them from conversations.")]),
  });

  async function load() {
    if (ctx.scope.user === undefined) { fill(rows, keyed.empty?.()); return; }
    if (!params.q) { await keyed.load(); return; }
    try {
      const found = await get("recall", { ...ctx.scope, query: params.q, kinds: ["entry"], limit: 50, prefix: true, by: ctx.about.asks_network ? "words" : null, as_of: asOf(), categories: params.category && params.category !== "*" ? [params.category] : null });
      const whole = (await Promise.all(found.hits.filter((hit) => !hit.source.shared).map((hit) => get("entry", { ...ctx.scope, id: hit.source.entry_id }).catch(() => null)))).filter((one) => one !== null);
      fill(rows, whole.length ? whole.map(drawRow) : h("div", { class: "empty" }, "No close match."));
    } catch (error) {
      fill(rows, ctx.problem(error, load));
    }
  }

  async function drawChips() {
    if (ctx.scope.user === undefined) return;
    const [found, categories, undecided] = await Promise.all([
      get.post("query", { sql: COUNTS, values: { app: ctx.scope.app ?? "default", user: ctx.scope.user } }), get("categories"), get("entries", { ...ctx.scope, undecided: true, limit: MOST_COUNTED })]);
    pinnedCategories = new Set(categories.items.filter((one) => one.pinned).map((one) => one.name));
    const total = found.rows.reduce((sum, row) => sum + row[1], 0);
    const pins = found.rows.reduce((sum, row) => sum + row[2], 0);
    /** @param {number} count */
    const of = (count) => (asOf() ? "" : ` ${number(count)}`); // the counts are those of now
    /** @param {string | undefined} value @param {Page.Child} text */
    const chip = (value, text) => button(text, () => { params = { ...params, category: value, entry: undefined, state: params.state === DECIDE ? undefined : params.state }; address(); drawChips(); load(); },
      { class: "chip", "aria-pressed": String(params.state !== DECIDE && (params.category ?? "") === value) });
    const waiting = undecided.items.length;
    const decide = waiting > 0 && !asOf() && button(`To decide ${number(waiting)}${undecided.next ? " and more" : ""}`, () => {
      params = { ...params, state: params.state === DECIDE ? undefined : DECIDE, category: undefined, entry: undefined };
      address();
      drawChips();
      load();
    }, { class: "chip", "aria-pressed": String(params.state === DECIDE) });
    fill(chips, decide, chip("", `All${of(total)}`), pins > 0 && chip("*", `★ Pinned${of(pins)}`),
      found.rows.map(([name, count]) => chip(name, `${pinnedCategories.has(name) ? "☆ " : ""}${shown(name)}${of(count)}`)));
  }

  const address = () => { const { user, app, ...rest } = params; ctx.change(rest); };

  function drawSelection() {
    fill(selection, selected.size ? [`${selected.size} selected`,
      button("Pin", async () => { for (const id of [...selected]) { const one = await get("entry", { ...ctx.scope, id }); if (!one.pinned) await send("PATCH", "entry", { ...ctx.scope, id }, { pinned: true }, one.etag); } selected.clear(); await done(open); }),
      button("Forget …", () => forgetNext(), { class: "danger" }),
      button("None", () => { selected.clear(); drawSelection(); load(); })] : null);
  }

  // One preview each: what goes with one entry is not what goes with another.
  function forgetNext() {
    const [id] = selected;
    if (id === undefined) { done(null); return; }
    selected.delete(id);
    openForget(ctx, { entry: id }, () => done(null));
    document.querySelector("dialog")?.addEventListener("close", () => { if (selected.size) forgetNext(); else drawSelection(); });
  }

  const actions = entryActions(ctx, (id) => done(id));
  /** @param {Page.Id | null} id */
  async function done(id) {
    drawSelection();
    await Promise.all([load(), drawChips()]);
    if (id === null) {
      if (open !== null) { params = { ...params, entry: undefined }; open = null; address(); drawNone(); }
    } else if (open !== null) {
      if (id !== open) { params = { ...params, entry: String(id) }; address(); }
      await openEntry(id, false);
    }
  }

  function drawNone() {
    panes.removeAttribute("data-open");
    fill(detail, h("div", { class: "empty" }, "Choose an entry to see its source, its history and its actions."));
  }

  const drawGone = () => fill(detail, h("div", { class: "empty" }, "There is no such entry: it was forgotten, or never there."));

  /** @param {Api.Entry} entry @param {Api.EntryVersion[]} history */
  function drawHistory(entry, history) {
    const versions = [...history, { ...entry, replaced_ms: null, reason: null }].sort((a, b) => b.version - a.version);
    return versions.map((one, index) => {
      const older = versions[index + 1];
      const until = one.replaced_ms === null ? "now" : `until ${day(one.replaced_ms)}`;
      return h("li", { class: "card", "data-version": one.version },
        h("div", { class: "spread" }, h("b", {}, `v${one.version} ${until}`), h("span", { class: "meta" }, [one.writer && `by ${shown(one.writer)}`, one.reason && shown(one.reason), one.session && `from ${placeOf(one)}`].filter(Boolean).join(" · "))),
        older && older.text !== one.text ? wordDiff(older.text, one.text) : longWords(one.text),
        h("div", { class: "meta" }, `${shown(one.category)} · importance ${one.importance}${one.pinned ? " · pinned" : ""} · ${one.trust}`),
        one.replaced_ms !== null && !ctx.readOnly ? button("Restore", async () => {
          try { await actions.restore(entry.id, one.version); ctx.toast(`Version ${one.version} is back, as a new one.`, () => actions.restore(entry.id, entry.version)); } catch (error) { ctx.toast(failure(error).message); }
        }) : null);
    });
  }

  /** @param {Page.Id} id @param {Api.Link} one */
  const drawLink = (id, one) => {
    const isNewer = one.newer_id === id;
    const other = isNewer ? one.older_id : one.newer_id;
    const sure = one.decided === "guessed" && one.probability !== null ? `${Math.round(one.probability * 100)} %` : one.decided;
    const link = h("a", { "data-go": true, href: ctx.href("entries", { entry: other }) }, isNewer ? "an older entry" : "a newer entry");
    return h("li", {}, isNewer ? [`It ${one.kind} `, link] : ["Older: ", link, ` ${one.kind} it`], h("span", { class: "meta" }, ` · ${sure} · ${day(one.made_ms)}`),
      one.reason ? h("details", { class: "meta" }, h("summary", {}, "Why"), shown(one.reason)) : null);
  };

  /** @param {Page.Id} id */
  async function openEntry(id, isFocus = true) {
    open = id;
    panes.setAttribute("data-open", "");
    if (!Number.isSafeInteger(id)) { drawGone(); return; }
    findAll(rows, "[data-entry]").forEach((row) => (Number(row.dataset.entry) === id ? row.setAttribute("aria-current", "true") : row.removeAttribute("aria-current")));
    const at = { ...ctx.scope, id };
    try {
      const [entry, history, replaced, links] = await Promise.all([get("entry", at), get("entry/history", at), get("entry/replaced", at), get("entry/links", at)]);
      if (open !== id) return;
      ctx.setTitle(entry.text.slice(0, 60));
      const why = entry.pinned ? "pinned: in every context" : pinnedCategories.has(entry.category) ? `its category ${shown(entry.category)} is pinned: in every context` : "sent when it fits the question";
      const state = entry.active ? "active" : entry.superseded_by ? "superseded" : "switched off or expired";
      const heading = h("h2", { tabindex: -1, "aria-level": 1 }, h("span", { class: "kind-entry" }, "◆ "), shown(entry.category));
      const isHeld = detail.contains(document.activeElement); // what has the focus is redrawn
      fill(detail, button("‹ Entries", () => ctx.up(filters()), { class: "quiet only-narrow" }), heading,
        h("p", {}, longWords(entry.text, "words read")),
        entry.session ? h("p", {}, "Learnt from ", h("a", { "data-go": true, href: ctx.href("conversations", { session: entry.session, at: entry.first_seq }) }, placeOf(entry)), ` · ${day(entry.created_ms)}`)
          : h("p", { class: "meta" }, `Stored by a program · ${day(entry.created_ms)}${entry.writer ? ` · ${shown(entry.writer)}` : ""}`),
        ctx.readOnly ? null : h("div", { class: "tools" },
          button("Edit", () => actions.edit(id), { title: "e" }), button(entry.pinned ? "Unpin" : "Pin", () => actions.pin(id), { title: "p" }),
          entry.active && button("Supersede …", () => actions.supersede(id), { title: "s" }),
          button(entry.active ? "Switch off" : "Restore this entry", () => actions.switchActive(id)),
          button(`Change trust (${entry.trust})`, () => actions.trust(id)),
          button("Forget …", () => actions.forget(id), { class: "danger", title: "#" })),
        h("div", { class: "tools" }, button("Copy text", () => ctx.copy(entry.text), { title: "c" }), button("Copy JSON", () => ctx.copy(JSON.stringify(entry, null, 2))), button("Copy link", () => ctx.copy(location.href, "Link copied."), { title: "y" }),
          button("As Python", () => ctx.copy(`db.scope(${JSON.stringify(ctx.scope.user)}).entries.get(${entry.id})`))),
        h("h2", { class: "part" }, "About it"),
        h("dl", {}, [["State", state], ["Sent", why], ["Importance", importance(entry.importance)], ["Used", `${plural(entry.use_count, "time")}`], ["Key", entry.key && words(entry.key)],
          ["Keywords", entry.keywords.length ? words(entry.keywords.join(", ")) : null], ["Valid from", entry.valid_from_ms && day(entry.valid_from_ms)], ["Valid to", entry.valid_to_ms && day(entry.valid_to_ms)],
          ["Expires", entry.expires_ms ? day(entry.expires_ms) : "never"], ["Metadata", entry.metadata && words(JSON.stringify(entry.metadata), "code")],
          ["Superseded by", entry.superseded_by && h("a", { "data-go": true, href: ctx.href("entries", { entry: entry.superseded_by }) }, "the newer one")], ["Written by", entry.writer && shown(entry.writer)], ["Changed", age(entry.updated_ms)]]
          .filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
        h("h2", { class: "part" }, "History"), h("ol", { class: "tree" }, drawHistory(entry, history.items)),
        replaced.items.length ? [h("h2", { class: "part" }, "It replaced"), h("ul", { class: "tree" }, replaced.items.map((one) => h("li", { class: "card" }, h("a", { "data-go": true, href: ctx.href("entries", { entry: one.id }) }, words(one.text)))))] : null,
        links.items.length ? [h("h2", { class: "part" }, "Linked entries"), h("ul", { class: "tree" }, links.items.map((one) => drawLink(id, one)))] : null);
      if (isFocus || isHeld) offerFocus(heading);
      if (params.version) detail.querySelector(`[data-version="${CSS.escape(params.version)}"]`)?.scrollIntoView();
    } catch (error) {
      if (open === id) failure(error).status === 404 ? drawGone() : fill(detail, ctx.problem(error, () => openEntry(id)));
    }
  }

  const drawAsOf = () => {
    const time = asOf();
    slider.value = String(time === null ? STEPS : Math.round(((time - span[0]) / (span[1] - span[0])) * STEPS));
    label.textContent = time === null ? "now" : `${day(time)} ${clock(time)}`;
    slider.setAttribute("aria-valuetext", label.textContent);
  };
  let timer = 0;
  slider.addEventListener("input", () => {
    const step = Number(slider.value);
    params = { ...params, asof: step === STEPS ? undefined : String(Math.round(span[0] + ((span[1] - span[0]) * step) / STEPS)) };
    drawAsOf();
    address();
    clearTimeout(timer);
    timer = setTimeout(() => { load(); drawChips().catch(() => {}); }, 100);
  });
  off.checked = params.state === "all";
  off.addEventListener("change", () => { params = { ...params, state: off.checked ? "all" : undefined }; address(); load(); });
  filter.value = params.q ?? "";
  filter.addEventListener("input", (event) => {
    if (isComposing(event)) return;
    params = { ...params, q: filter.value };
    address();
    clearTimeout(timer);
    timer = setTimeout(load, 80);
  });

  // From when the file was made, or its first entry stored: what is imported was not known before, however old it is.
  // A copy is made after what it holds: then it is the first version of that entry.
  const info = ctx.scope.user === undefined ? null : Promise.all([get("file"), get("entries", { ...ctx.scope, inactive: true, limit: 1 })]).then(async ([{ meta }, { items: [first] }]) => {
    const [before] = first?.version > 1 ? (await get("entry/history", { ...ctx.scope, id: first.id })).items : [];
    span = [Math.min(Number(meta.created_ms) || Date.now(), (before ?? first)?.stored_ms ?? Infinity) - 1, Date.now()];
    drawAsOf();
  }).catch(() => {});
  const drawn = drawChips().catch(() => {});
  if (params.entry) await Promise.all([openEntry(Number(params.entry)), load()]);
  else { drawNone(); await Promise.all([drawn, load()]); }
  await drawn;
  await info;

  const versions = () => findAll(detail, "[data-version]");
  /** @param {number} version */
  const goToVersion = (version) => {
    params.version = String(version);
    find(detail, `[data-version="${version}"]`)?.scrollIntoView();
    return true;
  };
  /** Answer the question of the entry that has the focus. @param {boolean} isAccepted */
  const answer = (isAccepted) => {
    const ask = around(".pick")?.querySelectorAll(".question button");
    if (!ask?.length) return false;
    const chosen = ask[isAccepted ? 0 : 1];
    if (chosen instanceof HTMLElement) chosen.click();
    return true;
  };
  const current = () => Number(around("[data-entry]")?.dataset.entry) || open;
  /** @param {(id: Page.Id) => unknown} call */
  const write = (call) => () => { const id = current(); if (!id) return false; call(id); return true; };
  return {
    async update(next) {
      const isSame = JSON.stringify({ ...params, entry: null, version: null }) === JSON.stringify({ ...next, entry: null, version: null });
      params = next;
      if (!isSame) { filter.value = params.q ?? ""; off.checked = params.state === "all"; drawAsOf(); drawChips(); load(); }
      if (next.entry) await openEntry(Number(next.entry));
      else {
        const before = open;
        open = null;
        drawNone();
        find(rows, `[data-entry="${before}"]`)?.focus();
      }
    },
    async refresh(change = null) { if (!ctx.concerns(change, ["entry", "settings", "session"])) return; await Promise.all([params.q ? load() : keyed.refresh(), drawChips().catch(() => {})]); if (open !== null && !document.querySelector("dialog[open]")) await openEntry(open, false); },
    close() { if (open === null) return false; ctx.up(filters()); return true; },
    keys: {
      a: () => answer(true), r: () => answer(false),
      e: write((id) => actions.edit(id)), p: write((id) => actions.pin(id)), s: write((id) => actions.supersede(id)), "#": write((id) => actions.forget(id)),
      x: () => { const box = around(".pick")?.querySelector("input"); box?.click(); return Boolean(box); },
      X: () => {
        const picks = findAll(rows, ".pick");
        /** @type {(one: HTMLElement) => number} */
        const idOf = (one) => Number(find(one, "[data-entry]")?.dataset.entry);
        const at = picks.findIndex((one) => one.contains(document.activeElement));
        if (at < 0) return false;
        const from = picks.findIndex((one) => idOf(one) === last);
        for (const one of picks.slice(Math.min(at, from < 0 ? at : from), Math.max(at, from) + 1)) {
          selected.add(idOf(one));
          const box = findCheck(one);
          if (box) box.checked = true;
        }
        last = idOf(picks[at]);
        drawSelection();
        return true;
      },
      c: () => { const text = detail.querySelector(".read"); if (text) ctx.copy(text.textContent); return Boolean(text); },
      "[": () => { const items = versions(); return goToVersion(Math.max(1, Number(params.version ?? items[0]?.dataset.version ?? 2) - 1)); },
      "]": () => { const { length } = versions(); return goToVersion(Math.min(length, Number(params.version ?? length) + 1)); },
    },
    destroy() { clearTimeout(timer); },
  };
}
