// One message: who said it, its words, its calls of tools and their results, its images.
import { button, clock, FIRST_CHARS, h, longWords, shown, size, words } from "../dom.js";
import { address, get } from "../http.js";
import { markdown } from "../markdown.js";

/** @typedef {{ selected: Set<number>, select: (seq: number, on: boolean) => void, correct: (seq: number) => unknown, ctx: Page.Context }} More */

/** @type {Record<string, string>} */
const NAMES = { user: "User", assistant: "Assistant", tool: "⚙ Tool", system: "System" };
const MEDIA = new Set(["image", "audio", "file", "original"]);

/** Return words as they were said; those of a model are Markdown. @param {string} text @param {string} role */
const said = (text, role) => (role === "assistant" && text.length <= FIRST_CHARS ? markdown(text) : longWords(text, "words read"));

/** Return a call as one writes it: read_file(path=lease.pdf). @param {Page.Part} part */
function callOf({ name, arguments: given }) {
  let all = given;
  try {
    all = typeof given === "string" ? JSON.parse(given) : given;
  } catch { /* cut, or no JSON: as it is */ }
  const isNamed = all !== null && typeof all === "object" && !Array.isArray(all);
  /** @param {unknown} value */
  const valueOf = (value) => (typeof value === "string" && !/[\s,()]/.test(value) ? value : JSON.stringify(value));
  return `${name ?? ""}(${isNamed ? Object.entries(all).map(([key, value]) => `${key}=${valueOf(value)}`).join(", ") : given ?? ""})`;
}

/** @param {Page.Part} part @param {number} index @param {Page.Message} message @param {Page.Context} ctx @returns {Page.Child} */
function drawPart(part, index, message, ctx) {
  const kind = shown(part?.type ?? "part");
  const bytes = part?.base64_bytes ?? part?.source?.base64_bytes;
  const mime = String(part?.mime_type ?? part?.media_type ?? part?.mime ?? part?.source?.media_type ?? "");
  if (bytes && (mime.startsWith("image/") || kind === "image")) {
    const image = h("img", { class: "thumb", alt: `image of message ${message.seq}`, loading: "lazy", src: address("message/bytes", { ...ctx.scope, session: message.session, seq: message.seq, part: index }) });
    image.addEventListener("error", () => image.replaceWith(h("span", { class: "meta" }, "not shown")));
    return h("div", {}, h("p", { class: "meta" }, `image, ${size(bytes)}`), image);
  }
  if (kind === "original") return null;
  if (kind === "tool_call") return h("div", { class: "call" }, "→ ", longWords(callOf(part), "code"));
  if (kind === "tool_result") {
    const { content, is_error: isError } = part;
    return h("div", { class: "call" }, isError ? h("span", { class: "bad" }, "← failed: ") : "← ",
      Array.isArray(content) ? content.map((one) => drawPart(one, index, message, ctx)) : longWords(typeof content === "string" ? content : JSON.stringify(content), "code"));
  }
  if (kind === "thinking") return h("details", { class: "meta" }, h("summary", {}, "Thought"), longWords(part.text, "words"));
  if (typeof part?.text === "string" && !bytes) return said(part.text, message.role);
  return h("p", { class: "meta" }, `${kind} ${shown(part?.name ?? "")}`, bytes ? `, ${size(bytes)}` : "");
}

/** Return what a message consists of; what its parts do not say stands before them. @param {Page.Message} message @param {Page.Context} ctx @returns {Page.Child} */
function drawBody(message, ctx) {
  const { text, role } = message;
  const parts = /** @type {Page.Part[] | null} */ (message.parts);
  if (!parts?.length) return said(text, role);
  const isApart = parts.every((part) => MEDIA.has(part?.type)) || parts.some((part) => part?.type === "text" && !text.includes(part.text));
  return [isApart && text && said(text, role), parts.map((part, index) => drawPart(part, index, message, ctx)),
    h("details", { class: "meta" }, h("summary", {}, "As stored"), h("pre", {}, longWords(JSON.stringify({ text, parts }, null, 1), "code")))];
}

/** Return what the model was given for an answer, read when it is opened. @param {string} session @param {number} seq @param {Page.Context} ctx */
function drawGiven(session, seq, ctx) {
  const rows = h("ul", { class: "tree" });
  return h("details", { class: "meta", ontoggle: async () => {
    if (rows.childElementCount) return;
    const { items } = await get("context/given", { ...ctx.scope, session, seq });
    rows.append(...items.map((one) => h("li", {}, `${one.kind}${one.first_seq ? ` #${one.first_seq}` : ""}, ${one.reason}: `, longWords(one.text))));
    if (!items.length) rows.append(h("li", {}, "Not known: nothing was kept, or it is too long ago."));
  } }, h("summary", {}, "What it was given"), rows);
}

/** Return one message as an article. @param {Page.Message} message @param {More} more */
export function drawMessage(message, { selected, select, correct, ctx }) {
  const { seq, role, author, session, text } = message;
  const name = author && author !== role ? `${shown(author)} · ${role}` : NAMES[role] ?? shown(role);
  const whole = () => (message.text_chars > text.length ? get("message", { ...ctx.scope, session, seq }) : message);
  const rest = message.text_chars > text.length && button(`all ${size(message.text_chars)}`, async () => {
    rest && rest.replaceWith(longWords((await whole()).text.slice(text.length), "words read"));
  }, { class: "link" });
  const box = ctx.readOnly ? null : h("input", { type: "checkbox", "aria-label": `Select message ${seq}`, checked: selected.has(seq),
    onchange: (event) => select(seq, event.target.checked) });
  const body = [drawBody(message, ctx), rest, role === "assistant" && ctx.about.logs_contexts && drawGiven(session, seq, ctx)];
  return h("article", { class: "message", tabindex: -1, "data-role": role, "data-row": true, "aria-label": `message ${seq}, ${name}` },
    h("div", { class: "spread" },
      h("div", { class: `kind kind-${role}` }, words(name, "who"), h("span", { class: "meta" }, ` ${clock(message.created_ms)}${message.writer ? ` · written by ${shown(message.writer)}` : ""}`)),
      h("div", { class: "tools tight meta" }, h("a", { "data-go": true, href: ctx.href("conversations", { session, at: seq }) }, `#${seq}`),
        button("Copy", async () => { const found = await whole(); ctx.copy(found.text || JSON.stringify(found.parts)); }, { class: "link", "aria-label": `Copy message ${seq}` }),
        ctx.readOnly ? null : button("Correct", () => correct(seq), { class: "link", "aria-label": `Correct message ${seq}`, title: "e" }), box)),
    role === "system" ? h("details", {}, h("summary", {}, "system message"), body) : body);
}
