// What can be done to an entry: edit, pin, category, importance, trust, supersede, restore, forget.
import { button, fill, find, h, words } from "../dom.js";
import { wordDiff } from "../diff.js";
import { failure, get, send } from "../http.js";
import { openForget } from "./forget.js";

/** Return the functions that change entries; each reads the entry's version first, and can be undone. @param {Page.Context} ctx @param {(id: Page.Id | null) => unknown} done */
export function entryActions(ctx, done) {
  /** @param {Page.Id} id */
  const fresh = (id) => get("entry", { ...ctx.scope, id });
  /** @param {Page.Id} id */
  const at = (id) => ({ ...ctx.scope, id });

  /** Bring an earlier version back, as a new one. @param {Page.Id} id @param {number} version */
  async function restore(id, version) {
    const now = await fresh(id);
    await send("POST", "entry/revert", at(id), { version }, now.etag);
    await done(id);
  }

  /**
   * Send a change marked with the version that was read; a toast undoes it.
   * @param {Api.Entry} entry
   * @param {string} sentence
   * @param {() => Promise<unknown>} write
   */
  async function change(entry, sentence, write) {
    try {
      await write();
      await done(entry.id);
      ctx.toast(sentence, () => restore(entry.id, entry.version));
      return true;
    } catch (error) {
      if (![409, 412].includes(failure(error).status ?? 0)) {
        ctx.toast(failure(error).message);
        return false;
      }
      ctx.toast("It changed since you read it: look again.");
      await done(entry.id);
      return false;
    }
  }

  /** @param {Page.Id} id */
  async function edit(id) {
    let entry = await fresh(id);
    const text = h("textarea", { rows: 5, "aria-label": "Text", value: entry.text });
    const category = h("input", { "aria-label": "Category", value: entry.category, maxlength: 100 });
    const importance = h("input", { type: "number", min: 1, max: 10, "aria-label": "Importance", value: entry.importance });
    const status = h("div", { role: "status" });
    const save = button("Save", () => submit(), { class: "primary" });
    const { node, close } = ctx.dialog("Edit entry", h("div", {}, text),
      h("div", { class: "tools" }, h("label", {}, "Category", category), h("label", {}, "Importance", importance)), status,
      h("div", { class: "tools" }, save, button("Cancel", () => close())));
    const isChanged = () => text.value !== entry.text || category.value !== entry.category || Number(importance.value) !== entry.importance;
    /** @param {Event} event */
    const warn = (event) => { if (node.isConnected && isChanged()) event.preventDefault(); };
    addEventListener("beforeunload", warn);
    node.addEventListener("close", () => removeEventListener("beforeunload", warn));
    text.focus();
    async function submit() {
      const before = entry;
      const fields = {};
      if (text.value !== entry.text) fields.text = text.value;
      if (category.value !== entry.category) fields.category = category.value;
      if (Number(importance.value) !== entry.importance) fields.importance = Number(importance.value);
      if (!Object.keys(fields).length) { close(); return; }
      node.classList.add("saving");
      save.disabled = true;
      try {
        await send("PATCH", "entry", at(id), fields, entry.etag);
        removeEventListener("beforeunload", warn);
        close();
        await done(id);
        ctx.toast("Saved.", () => restore(id, before.version));
      } catch (error) {
        if ([409, 412].includes(failure(error).status ?? 0)) await conflict();
        else fill(status, ctx.problem(error));
      } finally {
        node.classList.remove("saving");
        save.disabled = false;
      }
    }
    async function conflict() {
      const theirs = await fresh(id);
      fill(status, h("div", { class: "card", role: "alert" },
        h("p", {}, h("strong", { class: "warn" }, "Somebody else changed it. "), "Nothing of yours is lost. From theirs to yours:"),
        wordDiff(theirs.text, text.value),
        h("div", { class: "tools" },
          button("Keep mine", () => { entry = theirs; fill(status); submit(); }, { class: "primary" }),
          button("Take theirs", () => { close(); done(id); }),
          button("Edit both", () => { entry = theirs; text.value = `${theirs.text}\n${text.value}`; fill(status); text.focus(); }))));
      find(status, "button")?.focus();
    }
  }

  /** @param {Page.Id} id */
  async function pin(id) {
    const entry = await fresh(id);
    await change(entry, entry.pinned ? "Unpinned." : "Pinned: it is in every context.", () => send("PATCH", "entry", at(id), { pinned: !entry.pinned }, entry.etag));
  }

  /** @param {Page.Id} id */
  async function trust(id) {
    const entry = await fresh(id);
    const next = { trusted: "untrusted", untrusted: "flagged", flagged: "trusted" }[entry.trust] ?? "trusted";
    await change(entry, `Now ${next}.`, () => send("PATCH", "entry", at(id), { trust: next }, entry.etag));
  }

  /** @param {Page.Id} id */
  async function switchActive(id) {
    const entry = await fresh(id);
    try {
      await send("PATCH", "entry", at(id), { active: !entry.active }, entry.etag);
      await done(id);
      ctx.toast(entry.active ? "Switched off: nothing recalls it." : "Restored.");
    } catch (error) {
      ctx.toast(failure(error).message);
    }
  }

  /**
   * Decide on what waits for it: take the newer entry for true, or the doubtful one; or say that both
   * hold, or that the doubtful one does not.
   * @param {Api.Entry} entry
   * @param {boolean} isAccepted
   */
  async function decide(entry, isAccepted) {
    const { id, outdated_by: newer } = entry;
    const { etag } = await fresh(id);
    try {
      if (newer === null) await send("PATCH", "entry", at(id), isAccepted ? { trust: "trusted" } : { active: false }, etag);
      else if (isAccepted) await send("POST", "entry/supersede", at(id), { new_id: newer }, etag);
      else {
        const { items } = await get("entry/links", at(id));
        for (const one of items) if (one.older_id === id && one.decided === "guessed") await send("POST", "entry/unlink", at(one.newer_id), { older_id: id });
      }
    } catch (error) {
      ctx.toast(failure(error).message);
      return;
    }
    await done(id);
    const undo = isAccepted && newer === null ? { trust: entry.trust } : { active: true };
    ctx.toast(newer === null ? (isAccepted ? "Accepted: it is trusted." : "Rejected: nothing recalls it.") : (isAccepted ? "Accepted: the older one is history." : "Rejected: both stay."),
      newer !== null && !isAccepted ? null : async () => { await send("PATCH", "entry", at(id), undo, (await fresh(id)).etag); await done(id); });
  }

  /** @param {Page.Id} id */
  async function supersede(id) {
    const entry = await fresh(id);
    const text = h("textarea", { rows: 3, "aria-label": "What is true now", placeholder: "What is true now" });
    const others = h("div", {});
    /** @param {Page.Id} newId */
    const isReplaced = async (newId) => (await fresh(id)).superseded_by === newId;
    /** @param {Page.Id} newId @param {boolean} isNew */
    const finish = async (newId, isNew) => {
      try {
        // What remembers a text may have seen by itself that it replaces the old one.
        if (!(await isReplaced(newId))) await send("POST", "entry/supersede", at(id), { new_id: newId }, (await fresh(id)).etag);
      } catch (error) {
        fill(others, ctx.problem(error));
        return;
      }
      close();
      await done(newId);
      ctx.toast("Superseded: the old one is history.", async () => {
        if (isNew) await send("PATCH", "entry", at(newId), { active: false }, (await fresh(newId)).etag);
        await send("PATCH", "entry", at(id), { active: true }, (await fresh(id)).etag);
        await done(id);
      });
    };
    const { close } = ctx.dialog("Supersede", h("p", { class: "meta" }, "The old entry stays in the history; nothing recalls it any more."),
      h("p", {}, words(entry.text)), h("div", {}, text),
      h("div", { class: "tools" }, button("Supersede by this text", async () => {
        if (!text.value.trim()) { text.focus(); return; }
        try {
          const made = await send("POST", "entries", ctx.scope, { text: text.value, category: entry.category, importance: entry.importance });
          const newId = made.entry.id;
          if (newId === id) { close(); await done(id); ctx.toast("It says that already."); return; }
          await finish(newId, made.action !== "repeated");
        } catch (error) {
          fill(others, ctx.problem(error));
        }
      }, { class: "primary" }), button("Cancel", () => close())), h("h3", {}, "Or by one that is there"), others);
    text.focus();
    const found = await get("recall", { ...ctx.scope, query: entry.text.slice(0, 300), kinds: ["entry"], limit: 8, by: ctx.about.asks_network ? "words" : null }).catch(() => ({ hits: [] }));
    fill(others, found.hits.map(({ text: said, source: { entry_id: other, shared } }) => other !== null && !shared && other !== id &&
      h("div", { class: "card spread" }, words(said), button("Use this one", () => finish(other, false), { "aria-label": `Supersede by: ${said.slice(0, 80)}` }))));
  }

  /** @param {Page.Id} id @param {() => unknown} [after] */
  const forget = (id, after) => openForget(ctx, { entry: id }, after ?? (() => done(null)));
  return { edit, pin, trust, decide, switchActive, supersede, restore, forget };
}
