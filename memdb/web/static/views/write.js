// What a person writes: a fact, the title of a conversation, the words of a message.
import { button, fill, h } from "../dom.js";
import { get, send } from "../http.js";

/**
 * Open a dialog with a field, and send what stands in it; then show a sentence, with its undo. If the
 * text is refused, the dialog stays and says why.
 * @param {Page.Context} ctx
 * @param {string} title
 * @param {HTMLInputElement | HTMLTextAreaElement} field
 * @param {string} verb
 * @param {() => Promise<[sentence: string, undo: (() => unknown) | null]>} write
 * @param {...Page.Child} more
 */
function ask(ctx, title, field, verb, write, ...more) {
  const status = h("div", { role: "status" });
  const submit = async () => {
    if (!field.value.trim()) { field.focus(); return; }
    save.disabled = true;
    try {
      const done = await write();
      close();
      ctx.toast(...done);
    } catch (error) {
      fill(status, ctx.problem(error));
    }
    save.disabled = false;
  };
  const save = button(verb, submit, { class: "primary" });
  const { close } = ctx.dialog(title, h("div", {}, field), more, status, h("div", { class: "tools" }, save, button("Cancel", () => close())));
  if (field instanceof HTMLInputElement) field.addEventListener("keydown", (event) => { if (event.key === "Enter") submit(); });
  field.focus();
}

/** Store a fact. @param {Page.Context} ctx */
export function add(ctx) {
  const text = h("textarea", { rows: 3, "aria-label": "What to remember", placeholder: "Ann is allergic to nuts." });
  const pinned = h("input", { type: "checkbox" });
  const user = h("input", { value: ctx.scope.user ?? ctx.about.user, maxlength: 200 });
  ask(ctx, "Add", text, "Remember", async () => {
    const scope = { ...ctx.scope, user: ctx.scope.user ?? user.value };
    const { action, entry, reason } = await send("POST", "entries", scope, { text: text.value, ...(pinned.checked ? { pinned: true } : {}) });
    if (action === "refused") throw new Error(reason);
    ctx.go("entries", { ...scope, entry: entry.id });
    const undo = async () => {
      await send("DELETE", "entry", { ...scope, id: entry.id }, {}, (await get("entry", { ...scope, id: entry.id })).etag);
      ctx.go("entries", scope);
    };
    return action === "added" ? ["Remembered.", undo] : [reason, null];
  }, h("div", { class: "tools" }, ctx.scope.user === undefined && h("label", {}, "Memory of", user), h("label", {}, pinned, "Pin it: it is in every context")));
}

/** Give a conversation another title. @param {Page.Context} ctx @param {string} session @param {() => unknown} done */
export async function rename(ctx, session, done) {
  const at = { ...ctx.scope, session };
  const head = await get("session", at);
  const title = h("input", { class: "wide-field", "aria-label": "Title", value: head.title ?? "", maxlength: 1000 });
  /** @param {string} text @param {string | undefined} etag */
  const write = async (text, etag) => {
    await send("PATCH", "session", at, { title: text }, etag);
    await done();
  };
  ask(ctx, "Rename the conversation", title, "Rename", async () => {
    await write(title.value, head.etag);
    return ["Renamed.", async () => write(head.title ?? "", (await get("session", at)).etag)];
  });
  title.select();
}

/** Change what a message says; all else of it stays. @param {Page.Context} ctx @param {string} session @param {number} seq @param {() => unknown} done */
export async function correct(ctx, session, seq, done) {
  const at = { ...ctx.scope, session, seq };
  const { role, author, text: whole, parts: all, metadata } = await get("message", at);
  const parts = /** @type {Page.Part[] | null} */ (all);
  const [part, ...others] = parts?.filter((one) => one.type === "text") ?? [];
  if (others.length) { ctx.toast("This message has several texts: one with a single text can be corrected."); return; }
  const before = part?.text ?? whole;
  const field = h("textarea", { rows: 6, "aria-label": "Text", value: before });
  /** @param {string} text */
  const write = async (text) => {
    const said = part ? { parts: parts?.map((one) => (one === part ? { ...one, text } : one)) } : { text, parts };
    await send("PATCH", "message", at, { message: { role, author, metadata, ...said } });
    await done();
  };
  ask(ctx, `Correct message ${seq}`, field, "Correct", async () => {
    await write(field.value);
    return ["Corrected.", () => write(before)];
  }, h("p", { class: "meta" }, "The old words go, and the summaries of the conversation are made again. Entries that were learnt from them stay."));
}
