// Health: one sentence, then jobs, spaces, findings, size; what can be done about each.
import { button, clock, day, fill, focusButton, h, number, plural, shown, size, words } from "../dom.js";
import { failure, get, getLines, send } from "../http.js";

/** @type {Record<string, string>} */
const KINDS = { embed: "to embed", summarize: "to summarise", extract: "to look through" };

/** Return what is to be said of a queue besides its numbers. @param {Api.QueueState} one */
function stateOf(one) {
  const parts = [one.model && `by ${shown(one.model)}`, one.oldest_due_ms && `since ${clock(one.oldest_due_ms)}`,
    one.failing ? `${plural(one.failing, "job")} failing, ${plural(one.attempts, "try")}, again ${clock(one.retry_ms)}: ${shown(one.error)}` : null];
  return parts.filter(Boolean).join(" · ");
}

/** @type {Page.Mount} */
export async function mount(root, ctx) {
  let params = ctx.params;
  const heading = h("h1", { tabindex: -1 }, "Health");
  const sentence = h("p", { class: "read", role: "status" }, "Looking …");
  const jobs = h("section", { class: "card", id: "jobs", "aria-label": "Jobs" });
  const spaces = h("section", { class: "card", id: "spaces", "aria-label": "Spaces" });
  const findings = h("section", { class: "card", id: "findings", "aria-label": "Findings" });
  const secrets = h("section", { class: "card", id: "secrets", "aria-label": "Secrets" });
  const bytes = h("section", { class: "card", id: "size", "aria-label": "Size" });
  const sync = h("section", { class: "card", id: "sync", "aria-label": "Sync", hidden: true });
  const calls = h("section", { class: "card", id: "calls", "aria-label": "Calls" });
  fill(root, h("div", { class: "page" }, heading, sentence, jobs, spaces, findings, secrets, bytes, sync, calls));
  /** @param {string[]} names @param {Page.Child[][]} rows @param {string} [caption] */
  const table = (names, rows, caption) => rows.length > 0 && h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": names.join(", ") }, h("table", {}, caption && h("caption", {}, caption),
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", { class: typeof cell === "number" ? "num" : null }, typeof cell === "number" ? number(cell) : cell)))))));
  /** @param {HTMLElement} holder @param {string} title @returns {(error: unknown) => unknown} */
  const fail = (holder, title) => (error) => fill(holder, h("h2", {}, title), ctx.problem(error, load));
  let due = 0;
  let waiting = 0;
  let found = [];

  /** Return a button that writes, says that it works, and shows what came of it. @template {"jobs" | "vacuum" | "rebuild"} N @param {string} label @param {N} noun @param {(answer: Api.Post[N]) => string} answer @param {Page.Params} body */
  const act = (label, noun, answer, body = {}) => {
    if (ctx.readOnly) return null;
    const mine = button(label, async () => {
      mine.disabled = true;
      mine.textContent = `${label} …`;
      try {
        ctx.toast(answer(await send("POST", noun, {}, body)));
      } catch (error) {
        ctx.toast(failure(error).message);
      }
      mine.disabled = false;
      mine.textContent = label;
      await load();
      if (document.activeElement === document.body) focusButton(root, label); // it is redrawn
    });
    return mine;
  };

  const drawSentence = () => {
    const state = found.length ? plural(found.length, "finding") : "Sound";
    sentence.className = `read ${found.length ? "bad" : "ok"}`;
    sentence.textContent = `${state}. ${due ? `${plural(due, "job")} due.` : "No job is due."}`;
  };

  async function drawJobs() {
    const [count, stats] = await Promise.all([get("jobs"), get("stats")]);
    due = count.value;
    const failures = Object.entries(stats.failures);
    fill(jobs, h("h2", {}, "Jobs"), h("p", {}, due ? `${plural(due, "job")} due.` : "All done."),
      stats.queue.length ? table(["kind", "waiting", "due", "state"], stats.queue.map((one) => [KINDS[one.kind] ?? shown(one.kind), one.waiting, one.due, stateOf(one)])) : null,
      failures.length ? table(["failed", "what was said"], failures.map(([name, text]) => [shown(name), words(typeof text === "string" ? text : JSON.stringify(text))])) : null,
      stats.refused.length ? h("p", { class: "warn" }, words(JSON.stringify(stats.refused), "code")) : null,
      h("div", { class: "tools" }, act("Run what is due", "jobs", (done) => `Ran: ${plural(done.value, "job")}.`)));
    fill(calls, h("h2", {}, "Calls of this process"), stats.calls.length ? table(["call", "times", "failed", "half under ms", "99 % under ms"],
      stats.calls.map((one) => [shown(one.name), one.count, one.failed, one.p50_ms, one.p99_ms])) : h("p", {}, "None yet."));
    drawSentence();
  }

  async function drawSpaces() {
    const all = (await get("file")).spaces;
    fill(spaces, h("h2", {}, "Spaces"), all.length ? table(["model", "dimensions", "vectors", "state", "due"], all.map((one) => [shown(one.model), one.dim, one.vectors, shown(one.state), one.due])) : h("p", {}, "No vectors: recall is by words."));
  }

  async function drawFindings(deep = false) {
    found = (await get("check", deep ? { deep: true } : {})).items;
    fill(findings, h("h2", {}, "Findings"), found.length ? h("ul", {}, found.map((one) => h("li", { class: "bad" }, words(one.text)))) : h("p", { class: "ok" }, "Nothing is wrong."),
      h("div", { class: "tools" }, button("Check deeply", () => drawFindings(true).catch(fail(findings, "Findings"))), act("Rebuild all indexes", "rebuild", () => "Rebuilt.")));
    drawSentence();
  }

  async function drawBytes() {
    const info = await get("file");
    fill(bytes, h("h2", {}, "Size"), h("p", {}, `${size(info.size_bytes)}${info.wal_bytes ? ` and ${size(info.wal_bytes)} in the log` : ""}${info.oldest_ms ? ` · ${day(info.oldest_ms)} to ${day(info.newest_ms)}` : ""}`),
      table(["holds", "rows"], Object.entries(info.counts).filter(([, count]) => count)),
      table(["store", "bytes"], Object.entries(info.bytes_per_store).sort((a, b) => b[1] - a[1]).map(([name, count]) => [name, size(count)])),
      h("p", { class: "meta" }, words(info.path)),
      h("div", { class: "tools" }, act("Return free space", "vacuum", (freed) => `${size(freed.value ?? freed)} given back.`)),
      h("p", { class: "meta" }, "A backup: ", h("code", {}, "memdb backup FILE COPY")));
    drawSync(info.meta.sync);
  }

  /** @param {string | undefined} said */
  function drawSync(said) {
    sync.hidden = said === undefined;
    if (said === undefined) return;
    /** @type {{ name: string, number: number, seen: Record<string, [number, string]>, is_encrypted: boolean }} */
    const device = JSON.parse(said);
    fill(sync, h("h2", {}, "Sync"), h("p", {}, `${device.name} has told of its changes ${plural(device.number, "time")}${device.is_encrypted ? ", encrypted" : ""}.`),
      table(["other device", "segments merged"], Object.entries(device.seen).map(([id, [merged]]) => [h("code", {}, id), merged])),
      h("p", { class: "meta" }, "What waits, and why: ", h("code", {}, "memdb sync FILE FOLDER --status")));
  }

  function drawSecrets() {
    fill(secrets, h("h2", {}, "Secrets"), h("p", {}, "Keys, tokens and passwords in the memory. None is shown in full."), ctx.scope.user === undefined ? null : button("Look for them", async () => {
      try {
        const all = await getLines("secrets", ctx.scope);
        fill(secrets, h("h2", {}, "Secrets"), all.length ? table(["where", "what"], all.map((one) => [
          one.session ? h("a", { "data-go": true, href: ctx.href("conversations", { session: one.session, at: one.seq }) }, `${shown(one.session)}#${one.seq ?? ""}`) : shown(one.kind ?? ""), words(JSON.stringify(one), "code")])) : h("p", { class: "ok" }, "None found."));
      } catch (error) {
        fail(secrets, "Secrets")(error);
      }
    }));
  }

  async function load() {
    await Promise.all([drawJobs().catch(fail(jobs, "Jobs")), drawSpaces().catch(fail(spaces, "Spaces")), drawFindings().catch(fail(findings, "Findings"))]);
    await drawBytes().catch(fail(bytes, "Size")); // last: it grows with the file
  }

  drawSecrets();
  await load();
  if (params.part) root.querySelector(`#${CSS.escape(params.part)}`)?.scrollIntoView();
  return {
    async update(next) { params = next; if (next.part) root.querySelector(`#${CSS.escape(next.part)}`)?.scrollIntoView(); },
    // At most one in two seconds, however often somebody writes.
    refresh() { waiting ||= setTimeout(() => { waiting = 0; Promise.all([drawJobs(), drawSpaces()]).catch(() => {}); }, 2000); },
    destroy() { clearTimeout(waiting); },
  };
}
