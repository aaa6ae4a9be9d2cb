// Search as you type over everything: each hit with its source, its score and the terms of it.
import { scoreBar, terms } from "../bars.js";
import { around, button, day, fill, find, h, isComposing, longWords, marked, number, plural, shown } from "../dom.js";
import { get, newest } from "../http.js";
import { entryActions } from "./entry_actions.js";

const KINDS = [["", "All"], ["message", "Messages"], ["entry", "Entries"], ["artifact", "Artifacts"], ["session", "Titles"], ["summary", "Summaries"], ["item", "Items"]];
/** @type {Record<string, string>} */
const GLYPH = { tool: "⚙", entry: "◆", artifact: "▤", summary: "Σ", session: "≡", item: "▫" };
const SINCE = [["", "any time"], ["7d", "last week"], ["30d", "last month"], ["365d", "last year"]];
const PAUSE_MS = 60;
const SURE = 0.5; // the score from which a hit answers for sure

/** Return the number of the entry that a hit is; null if it is none, or one that all users share. */
/** @param {Api.Hit} hit */
const ownEntry = (hit) => (hit.source.shared ? null : hit.source.entry_id);

/** @param {Api.Hit} hit @param {Page.Context} ctx */
function sourceLine(hit, ctx) {
  const { session, seq, artifact, created_ms: created, category, author } = hit.source;
  const entry = ownEntry(hit);
  const to = session !== null && seq !== null ? h("a", { "data-go": true, href: ctx.href("conversations", { session, at: seq }) }, `${shown(session)}#${seq}`)
    : session !== null ? h("a", { "data-go": true, href: ctx.href("conversations", { session }) }, shown(session)) : null;
  const kind = hit.role ?? hit.kind;
  return h("div", { class: "meta" }, h("span", { class: `kind kind-${kind}` }, `${GLYPH[kind] ?? ""} ${kind}`), " ",
    entry !== null && h("a", { "data-go": true, href: ctx.href("entries", { entry }) }, shown(category)),
    artifact && h("a", { "data-go": true, href: ctx.href("artifacts", { session: artifact.startsWith("user:") ? null : session, name: artifact }) }, shown(artifact)),
    (entry !== null || artifact) && to ? " · from " : "", to, author ? ` · ${shown(author)}` : "", created ? ` · ${day(created)}` : "");
}

/** Return the address of what a hit shows. */
/** @param {Api.Hit} hit @returns {[view: string, params: Page.Params] | null} */
function target(hit) {
  const { session, seq, artifact } = hit.source;
  const entry = ownEntry(hit);
  if (entry !== null) return ["entries", { entry }];
  if (artifact) return ["artifacts", { session: artifact.startsWith("user:") ? null : session, name: artifact }];
  if (session !== null) return ["conversations", { session, at: seq }];
  return null;
}

/** @type {string[]} */
const recent = []; // what was asked in this tab

/** @type {Page.Mount} */
export async function mount(root, ctx) {
  const box = ctx.box;
  let params = ctx.params;
  let limit = 20;
  let isAsked = false; // a server is asked for a vector on Enter alone
  const heading = h("h1", { tabindex: -1 }, "Search");
  const filters = h("div", { class: "tools filters", role: "group", "aria-label": "Filters" });
  const sheet = button("Filters", openFilters, { class: "filters-open", "aria-haspopup": "dialog" }); // on a narrow page they stand in it
  const set = h("div", { class: "tools" }, sheet);
  const status = h("p", { class: "meta", role: "status" });
  const results = h("div", { role: "list", "aria-label": "Hits" });
  const rest = h("div", {}); // what stands below the hits
  const missing = h("div", {});
  fill(root, h("div", { class: "page" }, heading, set, filters, status, results, rest, missing));
  const actions = entryActions(ctx, async () => { await search(); });
  /** @type {Api.Hit[]} */
  let hits = [];
  let spoken = 0;

  const query = () => ({
    ...ctx.scope, query: params.q, kinds: params.kind ? [params.kind] : null, since: params.since || null, until: params.until || null,
    session: params.session || null, as_of: params.asof || null, explain: true, limit, prefix: true,
    by: ctx.about.asks_network && !isAsked ? "words" : null,
  });
  const ask = newest((signal) => get("recall", query(), { signal }));

  function address() {
    const { user, app, ...rest } = params;
    ctx.change(rest);
  }

  /** @param {Api.Hit} hit */
  function drawHit(hit) {
    // The words that it has, as the reason names them, and the one that is being typed.
    const parts = [...hit.why.matchAll(/\*([^*]+)\*/g), (params.q ?? "").match(/[\p{L}\p{N}]+$/u) ?? []].map((one) => one.at(-1) ?? "");
    const why = hit.why || "Its score";
    const details = h("details", {}, h("summary", {}, h("span", { class: "meta" }, shown(why))), hit.explanation && terms(hit.explanation));
    const to = target(hit);
    const score = hit.score ?? 0;
    const entry = hit.kind === "entry" ? ownEntry(hit) : null;
    return h("div", { class: "card", role: "listitem", tabindex: 0, "data-row": true, "data-entry": entry },
      h("div", { class: "spread" }, sourceLine(hit, ctx),
        h("div", { class: "num" }, h("span", { class: "meta" }, `${score.toFixed(2)} `), scoreBar(score, SURE, `score ${score.toFixed(2)}, ${hit.is_sure ? "sure" : "not sure"}: ${why}`))),
      hit.text.length > 1500 ? longWords(hit.text, "words read") : h("div", { class: "read" }, marked(hit.text, parts)),
      details,
      h("div", { class: "tools tight" }, to && h("a", { "data-go": true, "data-open": true, href: ctx.href(to[0], to[1]) }, "Open"),
        button("Copy", () => ctx.copy(hit.text), { class: "link" }),
        entry !== null && !ctx.readOnly && [
          button("Supersede by …", () => actions.supersede(entry), { class: "link", title: "s" }),
          button("Edit", () => actions.edit(entry), { class: "link", title: "e" }),
          button("Forget …", () => actions.forget(entry, search), { class: "link", title: "#" })]));
  }

  /** Return a button for each filter that stands in the address alone: none is hidden, and each can be taken off. */
  function drawHidden() {
    const isChoice = !params.until && SINCE.some(([value]) => value === (params.since ?? ""));
    const span = isChoice ? null : [params.since && `from ${params.since}`, params.until && `until ${params.until}`].filter(Boolean).join(" ");
    /** @type {[string | null | undefined, Page.Place][]} */
    const all = [[params.session && `in ${shown(params.session)}`, { session: undefined }], [span, { since: undefined, until: undefined }],
      [params.asof && "as of a time", { asof: undefined }]];
    return all.filter(([label]) => label).map(([label, without]) => button(`${shown(label)} ×`, () => { params = { ...params, ...without }; address(); search(); },
      { class: "chip", "aria-pressed": "true", "aria-label": `Take the filter off: ${shown(label)}` }));
  }

  function openFilters() {
    const { node, close } = ctx.dialog("Filters", filters, h("div", { class: "tools" }, button("Show the hits", () => close(), { class: "primary" })));
    node.addEventListener("close", () => set.after(filters));
  }

  function drawFilters() {
    const at = [...filters.children].findIndex((one) => one === document.activeElement);
    const isCounted = Boolean(params.q?.trim()) && hits.length < limit; // else there may be more
    /** @type {Record<string, number>} */
    const counts = {};
    for (const hit of hits) counts[hit.kind] = (counts[hit.kind] ?? 0) + 1;
    fill(filters, KINDS.map(([kind, label]) => button(
      isCounted && ((params.kind ?? "") === kind || !params.kind) ? `${label} ${number(kind ? counts[kind] ?? 0 : hits.length)}` : label,
      () => { params = { ...params, kind }; address(); search(); }, { class: "chip", "aria-pressed": String((params.kind ?? "") === kind) })),
    h("select", { "aria-label": "Time", onchange: (event) => { params = { ...params, since: event.target.value }; address(); search(); } },
      SINCE.map(([value, label]) => h("option", { value, selected: value === (params.since ?? "") }, label))), ...drawHidden());
    const node = filters.children[at];
    if (node instanceof HTMLElement) node.focus(); // it was redrawn
    const chosen = [KINDS, SINCE].map((all, index) => all.find(([value]) => value === ((index ? params.since : params.kind) ?? ""))?.[1] ?? "a span");
    sheet.textContent = `${chosen.join(", ")} ▾`;
    sheet.setAttribute("aria-label", `Filters: ${chosen.join(", ")}`);
  }

  async function drawStart() {
    hits = [];
    fill(status);
    fill(missing);
    drawFilters();
    if (ctx.scope.user === undefined) { fill(results); fill(rest, h("div", { class: "empty" }, "Nothing is stored yet.")); return; }
    const found = recent.length ? [] : (await get("entries", { ...ctx.scope, limit: 5, order: "updated" }).catch(() => ({ items: [] }))).items;
    const examples = recent.length ? recent : [...new Set(found.flatMap((one) => one.keywords.slice(0, 1)))].slice(0, 5);
    fill(results);
    fill(rest, h("div", { class: "empty" }, h("p", {}, "Type into the box above. Everything is searched: messages, entries, artifacts, summaries."),
      examples.length ? h("p", {}, recent.length ? "Last asked: " : "For example: ", examples.map((one) => button(shown(one), () => { box.value = one; typed(); }, { class: "chip" }))) : null));
  }

  async function search() {
    if (!params.q?.trim() || ctx.scope.user === undefined) { await drawStart(); return; }
    const started = performance.now();
    try {
      const found = await ask();
      if (!found) return;
      hits = found.hits;
      root.dataset.ms = String(Math.round(performance.now() - started));
      drawFilters();
      const failed = found.failure ? ` · by words only: ${shown(found.failure)}` : ctx.about.asks_network && !isAsked ? " · by words; Enter asks the embedder too" : "";
      const unsure = hits.length && found.certainty === "unsure" ? " · not sure: these are the closest" : "";
      const left = found.missing.hits ? ` · ${shown(found.missing.hits)}` : "";
      status.textContent = `${plural(hits.length, "hit")}${unsure} · ${root.dataset.ms} ms${left}${failed}`;
      fill(results, hits.map(drawHit));
      fill(rest, hits.length >= limit && button("More", () => { limit += 20; search(); }),
        !hits.length && h("div", { class: "empty" }, "Nothing is known about this. Other words, or fewer of them, may find it."));
      drawMissing();
      clearTimeout(spoken);
      spoken = setTimeout(() => ctx.announce(plural(hits.length, "hit")), 500);
    } catch (error) {
      fill(results);
      fill(rest, ctx.problem(error, search));
    }
  }

  function drawMissing() {
    const place = h("input", { type: "text", "aria-label": "Session and number, as in menu#4", placeholder: "menu#4", value: params.why ?? "" });
    const answer = h("div", { role: "status" });
    const explain = async () => {
      const cut = place.value.lastIndexOf("#");
      const seq = Number(place.value.slice(cut + 1));
      if (cut < 1 || !Number.isInteger(seq) || seq < 1) { answer.textContent = "Give a session and a number, as in menu#4."; return; }
      params = { ...params, why: place.value };
      address();
      try {
        const found = await get("why", { ...ctx.scope, query: params.q, session: place.value.slice(0, cut), seq });
        fill(answer, h("p", {}, shown(found.reason)), found.explanation && terms(found.explanation));
      } catch (error) {
        fill(answer, ctx.problem(error));
      }
    };
    fill(missing, h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); explain(); } },
      h("label", {}, "Not what you expected?", place), h("button", { type: "submit" }, "Why is this not here")), answer);
  }

  // The first key asks at once; then one request at a time.
  let isAsking = false;
  let isWaiting = false;
  async function typed() {
    if (box.value.startsWith(">")) return; // a command
    params = { ...params, q: box.value };
    limit = 20;
    address();
    if (isAsking) { isWaiting = true; return; }
    isAsking = true;
    do {
      isWaiting = false;
      await search();
      if (isWaiting) await new Promise((done) => { setTimeout(done, PAUSE_MS); });
    } while (isWaiting);
    isAsking = false;
  }
  /** @param {Event} event */
  const onInput = (event) => { if (!isComposing(event)) typed(); };
  const onEnd = () => {
    const q = box.value.trim();
    if (q && recent[0] !== q) recent.splice(0, recent.length, q, ...recent.filter((one) => one !== q).slice(0, 4));
  };
  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.key === "Enter" && !isComposing(event) && ctx.about.asks_network) { isAsked = true; search().finally(() => { isAsked = false; }); }
    if (event.key === "ArrowDown" && find(results, "[data-row]")) { event.preventDefault(); find(results, "[data-row]").focus(); }
  };
  box.addEventListener("input", onInput);
  box.addEventListener("compositionend", typed);
  box.addEventListener("change", onEnd);
  box.addEventListener("keydown", onKey);
  if (document.activeElement !== box || box.value.length < (params.q ?? "").length) box.value = params.q ?? "";
  else if (box.value !== params.q) { // typed while this was loading
    params = { ...params, q: box.value };
    address();
  }
  drawFilters();
  await search();
  const current = () => around("[data-row]");
  /** @param {(id: Page.Id) => unknown} call */
  const onEntry = (call) => () => {
    const id = current()?.dataset.entry;
    if (!id) return false;
    call(Number(id));
    return true;
  };
  return {
    async update(next) {
      params = next;
      if (document.activeElement !== box) box.value = next.q ?? "";
      await search();
    },
    // What is read stays as it is: more may be found now, if one asks.
    refresh(change = null) {
      if (!params.q?.trim() || !ctx.concerns(change, ["message", "session", "entry", "summary", "artifact", "item"], "*")) return;
      if (!status.querySelector("button")) status.append(" · ", button("Something changed: search again", search, { class: "link" }));
    },
    close() { if (!current()) return false; heading.focus(); return true; },
    keys: {
      Enter: () => { const row = current(); const link = row && find(row, "a[data-open]"); link?.click(); return Boolean(link); },
      s: onEntry((id) => actions.supersede(id)), e: onEntry((id) => actions.edit(id)),
      p: onEntry((id) => actions.pin(id)), "#": onEntry((id) => actions.forget(id, search)),
      c: () => { const row = current(); if (row) ctx.copy(row.querySelector(".read, .words")?.textContent ?? ""); return Boolean(row); },
    },
    destroy() {
      box.removeEventListener("input", onInput);
      box.removeEventListener("compositionend", typed);
      box.removeEventListener("change", onEnd);
      box.removeEventListener("keydown", onKey);
      onEnd();
      box.value = "";
    },
  };
}
