// Context: what a model is sent at a budget, and what each token is spent on.
import { segments } from "../bars.js";
import { button, fill, h, isComposing, longWords, number, plural, shown } from "../dom.js";
import { get, newest } from "../http.js";

const SHAPES = ["openai", "anthropic"];
const STEPS = 200;
const LEAST = 200;
const MOST = 128000;
/** @param {number} step */
const toBudget = (step) => Math.round((LEAST * (MOST / LEAST) ** (step / STEPS)) / 10) * 10;
/** @param {number} budget */
const toStep = (budget) => Math.round((Math.log(budget / LEAST) / Math.log(MOST / LEAST)) * STEPS);
/** @param {string} text @param {number} most */
const begin = (text, most) => (text.length > most ? `${text.slice(0, most)} …` : text);
/** @param {Api.Piece} piece */
const nameOf = (piece) => `${piece.kind} ${piece.session ?? ""} ${piece.first_seq ?? ""}-${piece.last_seq ?? ""} ${piece.ref ?? ""}`;

/** @type {Page.Mount} */
export async function mount(root, ctx) {
  let params = ctx.params;
  /** @type {Api.ContextWindow | null} */
  let before = null; // the pieces of the budget that is compared with
  /** @type {Api.ContextWindow | null} */
  let current = null;
  let isAsked = !ctx.about.asks_network; // a server is asked for a vector on Enter alone
  const heading = h("h1", { tabindex: -1 }, "Context");
  const choose = h("select", { "aria-label": "Conversation" });
  const slider = h("input", { type: "range", min: 0, max: STEPS, value: toStep(Number(params.budget) || 4000), "aria-label": "Budget in tokens" });
  const budget = h("input", { type: "number", min: 1, max: 10000000, "aria-label": "Budget", value: Number(params.budget) || 4000 });
  const question = h("input", { type: "search", "aria-label": "What the model will be asked", class: "wide-field", placeholder: "What the model will be asked", value: params.q ?? "" });
  const shape = h("select", { "aria-label": "Shape" }, SHAPES.map((one) => h("option", { value: one, selected: one === params.shape }, one)));
  const bar = h("div", {});
  const status = h("p", { class: "meta", role: "status" });
  const pieces = h("ol", { class: "tree", "aria-label": "Pieces" });
  const sent = h("div", {});
  const compare = h("div", {});
  budget.style.width = "8rem";
  const details = h("details", {}, h("summary", {}, "Exactly what is sent"), h("div", { class: "tools" }, h("label", {}, "Shape", shape), button("Copy", () => ctx.copy(sent.dataset.text ?? "")),
      button("As Python", () => ctx.copy(`db.scope(${JSON.stringify(ctx.scope.user)}).session(${JSON.stringify(params.session ?? "")}).context(${budget.value})`))), sent);
  fill(root, h("div", { class: "page" }, heading,
    h("div", { class: "tools" }, h("label", {}, "Conversation", choose), question),
    h("div", { class: "tools" }, h("label", {}, "Budget", slider), budget, h("span", { class: "meta" }, "tokens"), button("Compare with this budget", () => { before = current; load(); })),
    bar, status, compare,
    details,
    h("h2", {}, "Pieces"), pieces));

  const address = () => { const { user, app, ...rest } = params; ctx.change(rest); };
  const query = () => ({ ...ctx.scope, session: params.session, budget_tokens: Number(params.budget) || 4000, query: (isAsked && params.q) || null });
  const ask = newest((signal) => get("context", query(), { signal }));

  /** @param {Api.Piece} piece */
  function where(piece) {
    if (piece.session !== null && piece.first_seq !== null) {
      const range = piece.last_seq !== null && piece.last_seq !== piece.first_seq ? `${piece.first_seq}–${piece.last_seq}` : piece.first_seq;
      return h("a", { "data-go": true, href: ctx.href("conversations", { session: piece.session, at: piece.first_seq }) }, `${shown(piece.session)}#${range}`);
    }
    return piece.first_seq !== null && params.session ? h("a", { "data-go": true, href: ctx.href("conversations", { session: params.session, at: piece.first_seq }) }, `#${piece.first_seq}${piece.last_seq !== piece.first_seq ? `–${piece.last_seq}` : ""}`) : null;
  }

  /** @param {Api.Piece} piece */
  function drawPiece(piece) {
    const head = [h("span", { class: `kind kind-${piece.kind}` }, shown(piece.kind)), " ", h("span", { class: "meta" }, `${plural(piece.tokens, "token")} · ${shown(piece.reason)} `), where(piece)];
    if (piece.kind === "entry" && piece.ref) head.push(" ", h("a", { "data-go": true, href: ctx.href("entries", { entry: piece.ref }) }, "entry"));
    const holder = h("div", {});
    const node = h("details", { ontoggle: () => { if (node.open && !holder.childElementCount) fill(holder, longWords(piece.text ?? "", "words read")); } },
      h("summary", { "data-row": true }, h("span", { class: "words" }, begin(shown((piece.text ?? "").replace(/\s+/g, " ")), 90) || piece.kind)), holder);
    return h("li", { class: "card" }, h("div", {}, head), piece.text ? node : null);
  }

  function drawCompare() {
    if (!before || !current) { fill(compare); return; }
    const then = new Map(before.pieces.map((piece) => [nameOf(piece), piece]));
    const now = new Map(current.pieces.map((piece) => [nameOf(piece), piece]));
    const came = current.pieces.filter((piece) => !then.has(nameOf(piece)));
    const went = before.pieces.filter((piece) => !now.has(nameOf(piece)));
    /** @param {Api.Piece[]} all @param {string} sign @param {string} className */
    const draw = (all, sign, className) => all.map((piece) => h("tr", { class: className }, h("td", {}, sign), h("td", {}, shown(piece.kind)), h("td", { class: "num" }, number(piece.tokens)), h("td", {}, longWords(piece.text ?? piece.reason))));
    fill(compare, h("h2", {}, `${number(before.budget_tokens)} → ${number(current.budget_tokens)} tokens`), h("div", { class: "wide" },
      came.length + went.length ? h("table", {}, h("tbody", {}, draw(came, "+", "added"), draw(went, "−", "removed"))) : h("p", {}, "The same pieces.")),
      button("Stop comparing", () => { before = null; drawCompare(); }));
  }

  async function drawSent() {
    if (!details.open || !params.session) return;
    try {
      const found = await get("context/sent", { ...query(), shape: shape.value });
      sent.dataset.text = JSON.stringify(found, null, 2);
      fill(sent, h("pre", {}, longWords(sent.dataset.text, "code")));
    } catch (error) {
      fill(sent, ctx.problem(error, drawSent));
    }
  }

  async function load() {
    if (!params.session) return;
    try {
      const found = await ask();
      if (!found) return;
      current = found;
      const sums = new Map();
      for (const piece of found.pieces) sums.set(piece.kind, (sums.get(piece.kind) ?? 0) + piece.tokens);
      const words = [...sums].map(([kind, tokens]) => `${kind} ${number(tokens)}`).join(", ");
      const pieced = found.pieces.reduce((sum, piece) => sum + piece.tokens, 0);
      if (found.tokens > pieced) sums.set("frame ", found.tokens - pieced);
      fill(bar, segments([...sums], found.budget_tokens ?? found.tokens, `${number(found.tokens)} of ${number(found.budget_tokens)} tokens: ${words}`));
      status.textContent = `${number(found.tokens)} of ${number(found.budget_tokens)} tokens · ${plural(found.pieces.length, "piece")} · ${words}`;
      fill(pieces, found.pieces.map(drawPiece));
      drawCompare();
      await drawSent();
    } catch (error) {
      fill(pieces, ctx.problem(error, load));
    }
  }

  let timer = 0;
  const later = () => { address(); clearTimeout(timer); timer = setTimeout(load, 60); };
  // At most one in two seconds, however often somebody writes.
  let waiting = 0;
  const changed = () => { waiting ||= setTimeout(() => { waiting = 0; load(); }, 2000); };
  /** @param {number} value */
  const setBudget = (value) => { params = { ...params, budget: String(value) }; slider.setAttribute("aria-valuetext", `${number(value)} tokens`); later(); };
  slider.addEventListener("input", () => { budget.value = String(toBudget(Number(slider.value))); setBudget(Number(budget.value)); });
  budget.addEventListener("change", () => { if (Number(budget.value) >= 1) { slider.value = String(toStep(Number(budget.value))); setBudget(Math.round(Number(budget.value))); } });
  question.addEventListener("input", (event) => { if (!isComposing(event)) { params = { ...params, q: question.value }; later(); } });
  question.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.isComposing) { isAsked = true; later(); } });
  choose.addEventListener("change", () => { params = { ...params, session: choose.value }; before = null; later(); });
  shape.addEventListener("change", () => { params = { ...params, shape: shape.value }; address(); drawSent(); });
  details.addEventListener("toggle", drawSent);

  /** @param {Page.Named} one */
  const option = (one) => h("option", { value: one.name }, shown(one.title ?? one.name));
  async function start() {
    if (ctx.scope.user === undefined) { fill(pieces, h("div", { class: "empty" }, "Nothing said yet: a context is built of conversations.")); return; }
    try {
      const found = (await get("sessions", { ...ctx.scope, order: "updated", limit: 200 })).items;
      if (params.session && !found.some((one) => one.name === params.session)) {
        const older = await get("session", { ...ctx.scope, session: params.session }).catch(() => null);
        if (older?.last_seq === undefined) { fill(pieces, h("div", { class: "empty" }, "There is no such conversation: it was forgotten, or never there.")); params = { ...params, session: undefined }; fill(choose, found.map(option)); choose.value = ""; return; }
        fill(choose, option(older), found.map(option));
      } else fill(choose, found.map(option));
      if (!found.length) { fill(pieces, h("div", { class: "empty" }, "Nothing said yet: a context is built of conversations.")); return; }
      if (!params.session) params = { ...params, session: found[0].name };
      choose.value = params.session ?? "";
      await load();
    } catch (error) {
      fill(pieces, ctx.problem(error, start));
    }
  }
  await start();
  return {
    async update(next) { params = { ...next, session: next.session ?? params.session }; choose.value = params.session ?? ""; budget.value = String(Number(params.budget) || 4000); question.value = params.q ?? ""; await load(); },
    async refresh(change = null) { if (params.session && ctx.concerns(change, ["message", "session", "entry", "summary", "settings"], params.session)) changed(); },
    destroy() { clearTimeout(timer); clearTimeout(waiting); },
    keys: { c: () => ctx.copy(sent.dataset.text ?? "") },
  };
}
