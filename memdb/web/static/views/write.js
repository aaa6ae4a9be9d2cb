// What a person writes: a fact, the title of a conversation, the words of a message.
import { button, fill, h, number, plural, shown, size } from "../dom.js";
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

const PART_BYTES = 600000; // of a file; a request holds 1 MB, and base64 takes a third more

/** Return bytes as base64. @param {Blob} part @returns {Promise<string>} */
const base64 = (part) => new Promise((done, fail) => {
  const reader = new FileReader();
  reader.onload = () => done(String(reader.result).split(",")[1] ?? "");
  reader.onerror = () => fail(reader.error);
  reader.readAsDataURL(part);
});

/** Return a sentence of what an import stored. @param {Api.ImportReport} report */
function sentence(report) {
  /** @type {[number, string][]} */
  const all = [[report.sessions, "conversation"], [report.messages_added, "message"], [report.entries_added, "entry"], [report.artifacts_added, "artifact"], [report.items_added, "item"]];
  const known = report.messages_known + report.entries_known + report.artifacts_known + report.items_known;
  const added = all.filter(([count]) => count).map(([count, noun]) => plural(count, noun)).join(", ");
  return `Added: ${added || "nothing"}.${known ? ` Here already: ${number(known)}.` : ""}${report.forgotten ? ` Forgotten before, and left out: ${number(report.forgotten)}.` : ""}`;
}

/** Send a file in parts, and import it. @param {Page.Context} ctx @param {Page.Params} scope @param {File} file @param {HTMLElement} status */
async function importFile(ctx, scope, file, status) {
  const upload = crypto.randomUUID();
  try {
    for (let at = 0; at === 0 || at < file.size; at += PART_BYTES) {
      status.textContent = `Sending ${shown(file.name)}: ${size(at)} of ${size(file.size)} …`;
      await send("POST", "upload", { ...scope, upload, at }, { data: await base64(file.slice(at, at + PART_BYTES)) });
    }
    status.textContent = `Reading ${shown(file.name)} …`;
    const report = await send("POST", "import", scope, { name: file.name, upload });
    fill(status, h("p", { class: "ok" }, sentence(report)), report.left_out.length > 0 && h("details", {}, h("summary", {}, `Left out: ${plural(report.left_out.length, "record")}`),
      h("ul", {}, report.left_out.map((one) => h("li", {}, shown(JSON.stringify(one)))))), h("a", { "data-go": true, href: ctx.href("conversations", scope) }, "Show the conversations"));
    ctx.announce(sentence(report));
  } catch (error) {
    fill(status, ctx.problem(error));
  }
}

/** Store a fact, or what a file holds. @param {Page.Context} ctx */
export function add(ctx) {
  const text = h("textarea", { rows: 3, "aria-label": "What to remember", placeholder: "Ann is allergic to nuts." });
  const pinned = h("input", { type: "checkbox" });
  const user = h("input", { value: ctx.scope.user ?? ctx.about.user, maxlength: 200 });
  const scopeOf = () => ({ ...ctx.scope, user: ctx.scope.user ?? user.value });
  const file = h("input", { type: "file", "aria-label": "File to import" });
  const sent = h("div", { role: "status" });
  file.addEventListener("change", () => { if (file.files?.[0]) importFile(ctx, scopeOf(), file.files[0], sent); });
  ask(ctx, "Add", text, "Remember", async () => {
    const scope = scopeOf();
    const { action, entry, reason } = await send("POST", "entries", scope, { text: text.value, ...(pinned.checked ? { pinned: true } : {}) });
    if (action === "refused") throw new Error(reason);
    ctx.go("entries", { ...scope, entry: entry.id });
    const undo = async () => {
      await send("DELETE", "entry", { ...scope, id: entry.id }, {}, (await get("entry", { ...scope, id: entry.id })).etag);
      ctx.go("entries", scope);
    };
    return action === "added" ? ["Remembered.", undo] : [reason, null];
  }, h("div", { class: "tools" }, ctx.scope.user === undefined && h("label", {}, "Memory of", user), h("label", {}, pinned, "Pin it: it is in every context")),
  h("h3", {}, "Or import a file"), h("p", { class: "meta" }, "Conversations of ChatGPT, Claude and others as they export them, notes, JSON lines: memdb detects the format. What is stored already is skipped."), file, sent);
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
  }, h("p", { class: "meta" }, "The old text is deleted, and the summaries of the conversation are rebuilt. Entries that were learnt from it stay."));
}
