// Map: days of a calendar by how much was said, then the sessions and entries of a span as lanes.
import { button, day, fill, findAll, h, number, offsetMinutes, plural, shown } from "../dom.js";
import { get } from "../http.js";

const DAY_MS = 86400000;
const MOST = 600;
const MOST_DAYS = 600; // that are counted one by one
const SESSIONS = "SELECT session, title, messages, created, updated FROM sessions_view WHERE app = :app AND user_name = :user AND branch IS NULL AND updated >= :from AND created < :until ORDER BY created, session LIMIT 200";
const LEARNT = "SELECT session, text, created FROM entries_view WHERE app = :app AND user_name = :user AND status = 'active' AND created >= :from AND created < :until ORDER BY created LIMIT 600";
const SUMMARIES = "SELECT session, first_seq, last_seq FROM summaries_view WHERE app = :app AND user_name = :user AND condensed_into IS NULL AND session IN (SELECT session FROM sessions_view WHERE app = :app AND user_name = :user AND updated >= :from AND created < :until LIMIT 200) ORDER BY session, first_seq LIMIT 600";
/** @type {Record<string, number>} */
const WIDTHS = { day: 10, month: 7, year: 4 };
const DAY_NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LANE = 22;
const LEAST = 8; // of the bar of a session
const WIDE = 900;

const MINUTE_MS = 60000;

/** Return the day of a time in the zone that is shown, as 2026-05-01. @param {number} ms */
const iso = (ms) => new Date(ms + offsetMinutes() * MINUTE_MS).toISOString().slice(0, 10);

/** @type {Page.Mount} */
export async function mount(root, ctx) {
  let params = ctx.params;
  const heading = h("h1", { tabindex: -1 }, "Map");
  const by = h("select", { "aria-label": "Buckets" }, Object.keys(WIDTHS).map((one) => h("option", { value: one, selected: one === (params.by ?? "day") }, one)));
  const calendar = h("div", { class: "calendar" });
  const lanes = h("div", { class: "wide" });
  const status = h("p", { class: "meta", role: "status" });
  const isComplete = h("p", { class: "meta" });
  fill(root, h("div", { class: "page" }, heading, h("div", { class: "tools" }, h("label", {}, "By", by),
    h("span", { class: "meta" }, "Choose a day, or several: drag, or choose the last with Shift. Their sessions stand below.")), calendar, isComplete, status, lanes));
  const values = () => ({ app: ctx.scope.app ?? "default", user: ctx.scope.user });
  /** @param {string} sql @param {Page.Params} more */
  const ask = (sql, more) => get.post("query", { sql, values: { ...values(), ...more }, limit: MOST });
  const address = () => { const { user, app, ...rest } = params; ctx.change(rest); };
  /** @type {{ from: string, moved: boolean } | null} */
  let drag = null;

  /** @param {string} from @param {string} until */
  function pick(from, until) {
    params = { ...params, from, to: until };
    address();
    drawSpan();
    findAll(calendar, "[data-bucket]").forEach((cell) => cell.setAttribute("aria-pressed", String((cell.dataset.bucket ?? "") >= from && (cell.dataset.bucket ?? "") <= until)));
  }

  /** @param {string} bucket @param {number} messages @param {number} entries @param {number} most */
  function cell(bucket, messages, entries, most) {
    const shade = messages ? Math.ceil((4 * Math.log1p(messages)) / Math.log1p(most)) : 0;
    const name = `${bucket}: ${plural(messages, "message")}${entries ? `, ${plural(entries, "entry")}` : ""}`;
    return h("button", { type: "button", class: `cell shade-${shade}`, "data-bucket": bucket, "data-row": true, title: name, "aria-pressed": String(bucket >= (params.from ?? "~") && bucket <= (params.to ?? "")),
      onclick: (event) => {
        const [from, until] = [event.shiftKey && params.from ? params.from : bucket, bucket].sort();
        if (!drag?.moved) pick(from, until);
        drag = null;
      },
      onpointerdown: () => { drag = { from: bucket, moved: false }; },
      onpointerenter: () => { if (drag && drag.from !== bucket) { drag.moved = true; const [a, b] = [drag.from, bucket].sort(); pick(a, b); } } },
    bucket.length === 10 ? String(Number(bucket.slice(8))) : bucket, entries ? h("span", { class: "kind-entry", "aria-hidden": "true" }, "◆") : null, h("span", { class: "hidden-visually" }, ` · ${name}`));
  }

  /** @param {Map<string, number>} counts @param {Map<string, number>} learnt */
  function drawDays(counts, learnt) {
    const days = [...new Set([...counts.keys(), ...learnt.keys()])].sort();
    const most = Math.max(1, ...counts.values());
    const months = [...new Set(days.map((one) => one.slice(0, 7)))].reverse(); // today is read first
    fill(calendar, months.map((month) => {
      const first = new Date(`${month}-01T00:00:00Z`);
      const blanks = (first.getUTCDay() + 6) % 7;
      const length = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0)).getUTCDate();
      const cells = [];
      for (let one = 1; one <= length; one += 1) {
        const bucket = `${month}-${String(one).padStart(2, "0")}`;
        const count = counts.get(bucket) ?? 0;
        const entries = learnt.get(bucket) ?? 0;
        cells.push(count || entries ? cell(bucket, count, entries, most) : h("span", { class: "cell meta" }, String(one)));
      }
      return h("section", { class: "month", "aria-label": month }, h("h2", {}, first.toLocaleDateString("en", { month: "long", year: "numeric", timeZone: "UTC" })),
        h("div", { class: "days" }, DAY_NAMES.map((name) => h("span", { class: "meta" }, name.slice(0, 2))), Array.from({ length: blanks }, () => h("span", {})), cells));
    }));
  }

  async function drawSpan() {
    if (!params.from) { fill(lanes); status.textContent = ""; return; }
    const last = params.to ?? params.from;
    const first = Date.parse(params.from.length === 4 ? `${params.from}-01-01` : params.from.length === 7 ? `${params.from}-01` : params.from);
    const lastDay = new Date(Date.parse(last.length === 4 ? `${last}-12-31` : last.length === 7 ? `${last}-01` : last));
    if (last.length === 7) lastDay.setUTCMonth(lastDay.getUTCMonth() + 1, 0);
    if (Number.isNaN(first) || Number.isNaN(lastDay.getTime())) { status.textContent = "from and to are days, as in 2026-05-01."; return; }
    const shift = offsetMinutes() * MINUTE_MS;
    const start = first - shift;
    const end = lastDay.getTime() + DAY_MS - shift;
    const range = { from: new Date(start).toISOString(), until: new Date(end).toISOString() };
    try {
      const [sessions, entries, summaries] = await Promise.all([ask(SESSIONS, range), ask(LEARNT, range), ask(SUMMARIES, range)]);
      /** @param {string} text */
      const x = (text) => Math.max(0, Math.min(WIDE, ((Date.parse(text) - start) / (end - start)) * WIDE));
      status.textContent = `${iso(start)} to ${iso(end - 1)}: ${plural(sessions.rows.length, "session")}${sessions.has_more ? " and more" : ""}, ${plural(entries.rows.length, "entry")}`;
      const index = new Map(sessions.rows.map((row, place) => [row[0], place]));
      const height = Math.max(1, sessions.rows.length) * LANE;
      const drawn = sessions.rows.map(([name, title, messages, created, updated], lane) => {
        const left = x(created);
        const width = Math.max(LEAST, x(updated) - left);
        const isLate = left > WIDE / 2; // its name stands before it
        return [h("rect", { class: "bar-fill", x: left, y: lane * LANE + 6, width, height: 8, rx: 2 }, h("title", {}, `${shown(title ?? name)}: ${plural(messages, "message")}`)),
          h("text", { x: isLate ? left - 8 : left + width + 8, y: lane * LANE + 15, "text-anchor": isLate ? "end" : "start" }, shown(title ?? name).slice(0, 60))];
      });
      const dots = entries.rows.map(([session, text, created]) => h("circle", { class: "dot", cx: x(created), cy: (index.get(session) ?? 0) * LANE + 10, r: 4 }, h("title", {}, shown(text.slice(0, 120)))));
      const brackets = [...new Set(summaries.rows.map((row) => row[0]))].filter((name) => index.has(name)).map((name) => {
        const lane = index.get(name) ?? 0;
        const [, , , created, updated] = sessions.rows[lane];
        return h("path", { class: "bracket", d: `M${x(created)} ${lane * LANE + 4}v-2H${Math.max(x(created) + 4, x(updated))}v2` });
      });
      fill(lanes, sessions.rows.length ? [
        h("div", { class: "tools" }, h("a", { "data-go": true, href: ctx.href("search", { since: iso(start), until: iso(end) }) }, "Search in this span"), button("No span", () => { params = { by: params.by }; address(); load(); })),
        h("svg", { class: "lanes", viewBox: `0 0 ${WIDE} ${height}`, width: WIDE, height, role: "img", "aria-label": `${plural(sessions.rows.length, "session")} as lanes, ${plural(entries.rows.length, "entry")} as dots, summaries as brackets` }, drawn, dots, brackets),
        h("table", {}, h("thead", {}, h("tr", {}, ["session", "messages", "from", "to"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, sessions.rows.map(([name, title, messages, created, updated]) => h("tr", {}, h("td", {}, h("a", { "data-go": true, href: ctx.href("conversations", { session: name }) }, shown(title ?? name))), h("td", { class: "num" }, number(messages)), h("td", {}, day(Date.parse(created))), h("td", {}, day(Date.parse(updated)))))))] : h("p", {}, "Nothing in this span."));
    } catch (error) {
      fill(lanes, ctx.problem(error, drawSpan));
    }
  }

  /** Return what came in on each day: a history of more days than are counted at once, a part at a time. */
  async function countDays() {
    /** @param {Page.Params} span */
    const count = (span) => get("counts", { ...ctx.scope, offset_minutes: offsetMinutes(), ...span });
    const whole = await count({});
    if (whole.bucket_days === 1) return whole;
    const days = [];
    let done = -Infinity;
    for (const { start_ms } of whole.days) {
      if (start_ms + whole.bucket_days * DAY_MS <= done) continue;
      const since = Math.max(start_ms, done);
      done = since + MOST_DAYS * DAY_MS;
      days.push(...(await count({ since: new Date(since).toISOString(), until: new Date(done).toISOString() })).days);
    }
    return { ...whole, days };
  }

  async function load() {
    if (ctx.scope.user === undefined) { fill(calendar, h("div", { class: "empty" }, "Nothing is stored yet.")); return; }
    const unit = params.by ?? "day";
    try {
      const width = WIDTHS[unit] ?? 10;
      const found = await countDays();
      const all = new Map();
      const entries = new Map();
      for (const one of found.days) {
        const bucket = iso(one.start_ms).slice(0, width);
        if (one.messages) all.set(bucket, (all.get(bucket) ?? 0) + one.messages);
        if (one.entries) entries.set(bucket, (entries.get(bucket) ?? 0) + one.entries);
      }
      isComplete.textContent = found.is_complete ? "" : "Of the newest million messages.";
      if (!all.size && !entries.size) fill(calendar, h("div", { class: "empty" }, "Nothing is stored yet."));
      else if (unit === "day") drawDays(all, entries);
      else {
        const most = Math.max(1, ...all.values());
        fill(calendar, h("div", { class: "tools" }, [...new Set([...all.keys(), ...entries.keys()])].sort().reverse().map((bucket) => cell(bucket, all.get(bucket) ?? 0, entries.get(bucket) ?? 0, most))));
      }
      await drawSpan();
    } catch (error) {
      fill(calendar, ctx.problem(error, load));
    }
  }
  // The counts read every message: at most once in ten seconds, however often somebody writes.
  let waiting = 0;
  const refresh = (change = null) => { if (ctx.concerns(change, ["message", "session", "entry"], "*")) waiting ||= setTimeout(() => { waiting = 0; load(); }, 10000); };
  const release = () => { setTimeout(() => { drag = null; }); };
  addEventListener("pointerup", release);
  by.addEventListener("change", () => { params = { by: by.value }; address(); load(); });
  await load();
  return { async update(next) { params = next; by.value = params.by ?? "day"; await load(); }, refresh, destroy: () => { clearTimeout(waiting); removeEventListener("pointerup", release); } };
}
