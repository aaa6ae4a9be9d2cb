// Removal: choose, look at every row that goes, then do exactly that; then the receipt.
import { button, fill, find, h, longWords, plural, shown, words } from "../dom.js";
import { failure, send } from "../http.js";

/** @type {Record<string, string>} */
const LETTERS = { entry: "◆", version: "◆", summary: "Σ", artifact: "▤" };

/** Return the words of a button: "Forget 4 messages and 1 entry". @param {string} verb @param {Record<string, number>} counts */
function sentence(verb, counts) {
  const parts = Object.entries(counts).filter(([, count]) => count).map(([noun, count]) => plural(count, noun));
  const last = parts.pop();
  return `${verb} ${parts.length ? `${parts.join(", ")} and ${last}` : (last ?? "nothing")}`;
}

/** @param {Api.PreviewRow} row */
function drawRow(row) {
  const where = [row.session && shown(row.session), row.seq && `#${row.seq}`].filter(Boolean).join(" ");
  return h("li", { class: "card" },
    h("div", { class: "meta" }, h("span", { class: `kind kind-${row.kind}` }, `${LETTERS[row.kind] ?? ""} ${row.kind}`), " ", where,
      row.kind === "summary" ? (row.new_text === null ? " is deleted" : " is rewritten") : ""),
    longWords(row.text),
    row.new_text && h("div", {}, h("span", { class: "meta" }, "will say: "), longWords(row.new_text)));
}

/** Ask for a removal of *selector* (entry, session, seqs, query); *done* runs after it. @param {Page.Context} ctx @param {Page.Params} selector @param {((receipt: Api.Receipt) => unknown) | null} done @param {string | null} typed */
export async function openForget(ctx, selector, done, typed = null) {
  const list = h("ul", { class: "tree" });
  const status = h("p", { role: "status" }, "Looking up the rows …");
  const actions = h("div", { class: "tools" });
  const { node, close } = ctx.dialog("What will be deleted", status, list,
    h("p", { class: "meta" }, "Backups and exports made before are not reached. Deleted rows may be recovered from the disk; forgotten ones are searched for on it, and the receipt proves that they are gone."),
    actions);
  /** @type {string | null} */
  let digest = null;
  const load = async () => {
    fill(list);
    const found = await send("POST", "forget/preview", { user: ctx.scope.user, app: ctx.scope.app }, selector);
    digest = found.digest;
    list.append(...found.rows.map(drawRow));
    if (found.more_rows) list.append(h("li", { class: "meta" }, `and ${plural(found.more_rows, "row")} more`));
    const total = found.removed;
    const named = { message: total.messages, session: total.sessions, entry: total.entries, version: total.versions, artifact: total.artifacts, summary: total.summaries, item: total.items };
    const rewritten = found.rewritten.summaries ?? 0;
    status.textContent = `${sentence("Will be deleted:", named)}.${rewritten ? ` Rewritten: ${plural(rewritten, "summary")}.` : ""}`;
    const isTyped = h("input", { type: "text", "aria-label": `Type ${typed} to go on`, placeholder: `type ${typed ?? ""}` });
    /** @param {"forget" | "delete"} verb */
    const run = (verb) => async () => {
      if (typed && isTyped.value !== typed) { isTyped.focus(); return; }
      actions.querySelectorAll("button").forEach((one) => { one.disabled = true; });
      try {
        const body = verb === "forget" ? { ...selector, prove: true, expected: digest } : { ...selector };
        const receipt = await send("POST", verb, { user: ctx.scope.user, app: ctx.scope.app }, body);
        drawReceipt(receipt, verb);
        await done?.(receipt);
      } catch (error) {
        if (failure(error).code === "conflict") {
          await load();
          status.prepend(h("strong", { class: "warn" }, "Something changed since you looked. This would be deleted now. "));
        } else {
          fill(actions, ctx.problem(error, load));
        }
      }
    };
    const what = sentence("", named).trim();
    fill(actions, typed && isTyped,
      button(`Forget ${what}`, run("forget"), { class: "danger", title: "Gone for good, also from the disk" }),
      button(`Delete ${what}`, run("delete"), { title: "Removed from the memory; the disk may still contain it" }),
      button("Keep", close, { class: "primary" }));
  };
  /** @param {Api.Receipt} receipt @param {string} verb */
  const drawReceipt = (receipt, verb) => {
    document.querySelector(".toast")?.remove(); // what it would undo may be gone
    const proof = receipt.proof;
    const isProven = verb === "forget" && proof !== null && proof !== undefined;
    const text = JSON.stringify(receipt, null, 2);
    const title = find(node, "h2");
    if (title) title.textContent = verb === "forget" ? "Forgotten" : "Deleted";
    fill(list);
    status.textContent = sentence("Deleted:", { message: receipt.removed?.messages, session: receipt.removed?.sessions, entry: receipt.removed?.entries, summary: receipt.removed?.summaries, artifact: receipt.removed?.artifacts, item: receipt.removed?.items });
    list.append(h("li", {}, isProven ? h("p", { class: "ok" }, "Proof: the file, its log and the copies beside it were searched for these words.") : h("p", {}, "Without proof: deleting only takes rows out."),
      h("details", {}, h("summary", {}, "Receipt"), h("pre", {}, words(text, "code")))));
    fill(actions, button("Copy the receipt", () => ctx.copy(text, "Receipt copied.")), button("Close", close, { class: "primary" }));
  };
  try {
    await load();
  } catch (error) {
    fill(status, ctx.problem(error));
  }
}
