// The summary tree of a conversation.
import { around, button, fill, find, h, headOf, longWords, plural, shown } from "../dom.js";
import { get } from "../http.js";

/** @typedef {{ text: string, expanded: Set<number>, isClosed: boolean }} Kept */

/**
 * The summaries of a session: roots at first, a level more at each click.
 *
 * *kept* is what is drawn of it: redrawn, it stays in its place, and what is open stays open.
 * @param {HTMLElement} holder @param {Page.Context} ctx @param {string} name @param {(seq: number) => unknown} jump @param {Kept} kept
 */
export async function drawTree(holder, ctx, name, jump, kept) {
  /** @type {Api.Summary[]} */
  const roots = [];
  let first = 1;
  for (let round = 0; round < 20; round += 1) {
    const found = (await get("summaries", { ...ctx.scope, session: name, first_seq: first, limit: 60 })).items;
    const tops = found.filter((one) => one.condensed_into === null).sort((a, b) => a.first_seq - b.first_seq);
    const fresh = tops.filter((one) => !roots.some((root) => root.id === one.id) && one.first_seq >= first);
    if (!fresh.length) break;
    // A deeper one may stand before shallower ones that the limit cut: go on after what is whole.
    const deepest = Math.max(...fresh.map((one) => one.depth));
    const taken = found.length < 60 ? fresh : fresh.filter((one) => one.depth === deepest);
    roots.push(...taken);
    first = Math.max(...taken.map((one) => one.last_seq)) + 1;
    if (found.length < 60) break;
  }
  roots.sort((a, b) => a.first_seq - b.first_seq);
  const text = JSON.stringify(roots);
  if (kept.isClosed || (kept.text === text && !kept.expanded.size)) return;
  kept.text = text;
  /** @type {Promise<void>[]} */
  const opened = [];
  /** @param {Api.Summary} one */
  const drawNode = (one) => {
    const below = h("ul", { class: "tree" });
    const open = button("Show its sources", () => {
      if (!kept.expanded.delete(one.id)) return expand();
      fill(below);
      open.setAttribute("aria-expanded", "false");
      return undefined;
    }, { class: "link", "aria-expanded": "false" });
    const expand = async () => {
      kept.expanded.add(one.id);
      const found = await get("expand", { ...ctx.scope, session: name, id: one.id, limit: 60 });
      const next = found.summaries ?? [];
      open.setAttribute("aria-expanded", "true");
      if (next.length) fill(below, next.map(drawNode));
      else fill(below, (found.messages ?? []).map((message) => h("li", {}, h("a", { "data-go": true, href: ctx.href("conversations", { session: name, at: message.seq }) },
        `#${message.seq} `, h("span", { class: "words" }, shown((message.text ?? "").slice(0, 60)))))));
    };
    if (kept.expanded.has(one.id)) opened.push(expand());
    return h("li", {}, h("div", { class: "node", "data-id": one.id, "data-first": one.first_seq, "data-last": one.last_seq },
      h("div", { class: "spread" }, h("button", { type: "button", class: "link kind-summary", onclick: () => jump(one.first_seq) }, `Σ summary of ${one.first_seq}–${one.last_seq}`),
        h("span", { class: "meta" }, plural(one.tokens, "token"))), longWords(one.text), open), below);
  };
  const tail = roots.at(-1)?.last_seq ?? 0;
  const { scrollTop } = holder;
  const focused = holder.contains(document.activeElement) ? around("[data-id]")?.dataset.id : undefined;
  fill(holder, headOf(h("h2", {}, "Summary tree"), button("Close", () => holder.parentElement?.removeAttribute("data-sheet"), { class: "not-wide" })),
    h("ul", { class: "tree" }, roots.map(drawNode)),
    h("p", { class: "meta" }, roots.length ? `After #${tail}: not yet summarised.` : "No summaries yet: all of it is sent as it is."));
  for (let next = opened.shift(); next; next = opened.shift()) await next; // which may open more
  holder.scrollTop = scrollTop;
  if (focused !== undefined) find(holder, `[data-id="${focused}"] button`)?.focus({ preventScroll: true });
}
