// Lists: a virtual one by number for very long conversations, and one that grows by key.
import { fill, h, offerFocus } from "./dom.js";
import { get } from "./http.js";

const MAX_HEIGHT = 15000000; // some browsers stop near 17 million
const PAGE = 50;
const AIR = 8; // above a row that was jumped to

/** Sums of heights: change one and find a place, both in log time. */
export class Heights {
  /** @param {number} count @param {number} each */
  constructor(count, each) {
    this.values = new Float64Array(count).fill(each);
    this.tree = new Float64Array(count + 1);
    for (let index = 1; index <= count; index += 1) {
      this.tree[index] += each;
      const parent = index + (index & -index);
      if (parent <= count) this.tree[parent] += this.tree[index];
    }
  }

  /** @param {number} index @param {number} value */
  set(index, value) {
    const by = value - this.values[index];
    if (!by) return 0;
    this.values[index] = value;
    for (let at = index + 1; at < this.tree.length; at += at & -at) this.tree[at] += by;
    return by;
  }

  /** Return the sum of those before *index*. @param {number} index */
  before(index) {
    let sum = 0;
    for (let at = index; at > 0; at -= at & -at) sum += this.tree[at];
    return sum;
  }

  /** Return which one stands at *height*. @param {number} height */
  at(height) {
    let index = 0;
    let rest = height;
    let step = 1;
    while (step * 2 < this.tree.length) step *= 2;
    for (; step; step >>= 1) {
      if (index + step < this.tree.length && this.tree[index + step] <= rest) {
        index += step;
        rest -= this.tree[index];
      }
    }
    return Math.min(index, this.values.length - 1);
  }
}

/** @param {Iterable<Element>} nodes */
const htmlOf = (nodes) => [...nodes].filter((one) => one instanceof HTMLElement);

/** @param {HTMLElement} row */
const seqOf = (row) => Number(row.dataset.seq);

/**
 * @typedef {object} Feed
 * @property {number} count
 * @property {string} name
 * @property {(first: number, limit: number) => Promise<Page.Message[]>} load
 * @property {(row: Page.Message, count: number) => HTMLElement} draw
 * @property {number} [each]
 * @property {(seq: number) => void} [moved]
 * @property {(error: unknown) => void} [failed]
 */

/**
 * A list of numbered rows; only those in sight are in the page.
 *
 * `load(first, limit)` returns rows with `seq`; `draw(row, count)` an element. Numbers may have
 * gaps. Whatever changes its height, before or after: the first row in sight stays in its place.
 */
export class FeedList {
  /** @param {HTMLElement} pane @param {Feed} feed */
  constructor(pane, { count, name, load, draw, each = 90, moved = () => {}, failed = () => {} }) {
    this.pane = pane;
    this.load = load;
    this.draw = draw;
    this.moved = moved;
    this.failed = failed;
    this.count = count;
    this.each = each;
    this.seen = 0; // the row that is read
    this.missed = 0; // rows that came out of sight
    /** @type {Heights | null} */
    this.measured = null;
    this.feed = h("div", { class: "feed", role: "feed", "aria-label": name });
    /** @type {Map<number, HTMLElement>} */
    this.chunks = new Map();
    /** @type {Map<number, Promise<void>>} */
    this.loading = new Map();
    /** @type {WeakMap<HTMLElement, string>} */
    this.drawn = new WeakMap(); // what each row shows, as JSON
    /** @type {{ seq: number, marks: [HTMLElement, number][] } | null} */
    this.anchor = null; // what is read, and where it stands
    this.held = -1; // where `hold` scrolled to
    this.isClosed = false;
    this.jumps = 0; // under way: what they load is not in sight yet
    this.frame = 0;
    this.resize(count);
    pane.append(this.feed);
    this.onScroll = () => {
      if (pane.scrollTop !== this.held) this.keep(); // else it was scrolled by `hold`
      this.later();
    };
    pane.addEventListener("scroll", this.onScroll, { passive: true });
    this.observer = new ResizeObserver(() => this.settle());
    for (const node of [pane, ...pane.children]) this.observer.observe(node); // a head that grows too
  }

  /** Load with the next frame what is in sight by then. */
  later() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.show(); });
  }

  get heights() {
    return (this.measured ??= new Heights(1, this.each));
  }

  /** @param {number} count */
  resize(count) {
    this.count = count;
    const chunks = Math.max(1, Math.ceil(count / PAGE));
    const estimate = Math.min(this.each * PAGE, MAX_HEIGHT / chunks);
    const old = this.measured;
    this.measured = new Heights(chunks, estimate);
    if (old) old.values.forEach((value, index) => index < chunks - 1 && this.heights.set(index, value));
    else this.heights.set(chunks - 1, Math.min(estimate, (count - (chunks - 1) * PAGE) * this.each));
    this.total();
  }

  total() {
    this.feed.style.height = `${this.heights.before(this.heights.values.length)}px`;
  }

  top() {
    return this.feed.offsetTop;
  }

  /** Return the rows in the page, in their order. */
  rows() {
    return [...this.chunks].sort(([a], [b]) => a - b).flatMap(([, node]) => htmlOf(node.children));
  }

  /** Return where the pane begins to show rows: below what sticks to its top. */
  edge() {
    const head = this.pane.firstElementChild;
    const { top } = this.pane.getBoundingClientRect();
    return head && head !== this.feed ? Math.max(top, head.getBoundingClientRect().bottom) : top;
  }

  /** Remember the places of the first block in sight, of its row, and of the next rows. */
  keep() {
    this.held = -1;
    const edge = this.edge();
    /** @param {HTMLElement} node */
    const isInSight = (node) => node.getBoundingClientRect().bottom > edge + 1;
    const all = this.rows();
    const first = all.findIndex(isInSight);
    if (first < 0) { this.anchor = null; return; }
    const rows = all.slice(first, first + PAGE); // the next ones too: the first may be removed
    const block = htmlOf(rows[0].children).find(isInSight) ?? rows[0];
    this.anchor = { seq: seqOf(rows[0]), marks: [block, ...rows].map((node) => [node, this.place(node)]) };
  }

  /** @param {HTMLElement} node */
  place(node) {
    return node.getBoundingClientRect().top - this.pane.getBoundingClientRect().top;
  }

  /** Scroll so that the remembered row stands where it stood; the next one, if it is gone. */
  hold() {
    if (!this.anchor || this.jumps) return;
    const { seq, marks } = this.anchor;
    const [node, was] = marks.find(([one]) => one.isConnected) ?? [this.rows().find((row) => seqOf(row) >= seq), marks[1][1]];
    const by = node ? this.place(node) - was : 0;
    if (by) {
      this.pane.scrollTop += by;
      this.held = this.pane.scrollTop;
    }
    if (!marks[0][0].isConnected) this.keep();
  }

  /** Take the true heights of what is in the page; what is read does not move. */
  settle() {
    if (this.isClosed) return;
    for (const [index, node] of this.chunks) this.heights.set(index, node.offsetHeight);
    this.total();
    for (const [index, node] of this.chunks) node.style.top = `${this.heights.before(index)}px`;
    this.hold();
    this.later();
  }

  async show() {
    if (this.isClosed) return;
    const from = Math.max(0, this.pane.scrollTop - this.top());
    const first = Math.max(0, this.heights.at(from - 200));
    const last = this.heights.at(from + this.pane.clientHeight + 200);
    for (const [index, node] of this.jumps ? [] : this.chunks) {
      if ((index < first - 1 || index > last + 1) && !node.contains(document.activeElement)) this.drop(index, node);
    }
    const wanted = [];
    for (let index = first; index <= last; index += 1) wanted.push(this.chunk(index));
    this.report();
    await Promise.all(wanted);
  }

  /** @param {number} index @param {HTMLElement} node */
  drop(index, node) {
    this.observer.unobserve(node);
    node.remove();
    this.chunks.delete(index);
  }

  /** Return the row that is read: the first with lines in sight. */
  report() {
    const edge = this.edge() + 6 * AIR;
    const row = this.rows().find((one) => one.getBoundingClientRect().bottom > edge);
    if (row) this.moved(seqOf(row));
  }

  /** Put the chunk *index* into the page, loaded. @param {number} index */
  async chunk(index) {
    if (this.chunks.has(index)) return;
    await (this.loading.get(index) ?? this.take(index));
  }

  /** Read the chunk *index* as it is now, and draw of it what is not drawn so. @param {number} index */
  async take(index) {
    await this.loading.get(index); // it may have been read before the change
    const work = (async () => {
      try {
        const first = index * PAGE + 1;
        const rows = (await this.load(first, PAGE)).filter((row) => row.seq < first + PAGE);
        if (!this.isClosed) this.put(index, rows);
      } catch (error) {
        this.failed(error);
      } finally {
        this.loading.delete(index);
      }
    })();
    this.loading.set(index, work);
    await work;
  }

  /** Draw the rows of a chunk: one that is drawn and equal stays, with its focus and what is open in it. @param {number} index @param {Page.Message[]} rows */
  put(index, rows) {
    let node = this.chunks.get(index);
    if (!node) {
      node = h("div", { class: "chunk", role: "presentation" });
      this.chunks.set(index, node);
      const later = [...this.chunks.keys()].filter((one) => one > index).sort((a, b) => a - b)[0];
      this.feed.insertBefore(node, this.chunks.get(later) ?? null);
      this.observer.observe(node);
    }
    const holder = node;
    const old = new Map(htmlOf(node.children).map((one) => [seqOf(one), one]));
    const focused = htmlOf([document.activeElement?.closest("[data-seq]")].filter((one) => one instanceof Element))[0];
    const now = rows.map((row) => {
      const text = JSON.stringify(row);
      const before = old.get(row.seq);
      const element = before && this.drawn.get(before) === text ? before : this.draw(row, this.count);
      this.drawn.set(element, text);
      element.dataset.seq = String(row.seq);
      element.setAttribute("aria-posinset", String(row.seq));
      element.setAttribute("aria-setsize", String(this.count));
      return element;
    });
    for (const one of old.values()) if (!now.includes(one)) one.remove();
    now.forEach((one, at) => { if (holder.children[at] !== one) holder.insertBefore(one, holder.children[at] ?? null); });
    if (focused && !focused.isConnected) now.find((one) => seqOf(one) >= seqOf(focused))?.focus({ preventScroll: true });
    this.settle();
  }

  /** Bring a number into sight, and return its row; the next one if it is gone. @param {number} seq */
  async jump(seq, { focus = false, end = false } = {}) {
    const index = Math.max(0, Math.min(this.heights.values.length - 1, Math.floor((seq - 1) / PAGE)));
    this.jumps += 1;
    /** @type {HTMLElement | null} */
    let row = null;
    try {
      await Promise.all([this.chunk(index), end ? this.chunk(Math.max(0, index - 1)) : null]);
      for (let round = 0; round < 3; round += 1) {
        const node = this.chunks.get(index);
        if (!node) return null;
        row = htmlOf(node.children).find((one) => seqOf(one) >= seq) ?? htmlOf(node.children).at(-1) ?? null;
        const head = this.edge() - this.pane.getBoundingClientRect().top;
        const place = this.top() + this.heights.before(index) + (row?.offsetTop ?? 0);
        this.pane.scrollTop = end ? this.pane.scrollHeight : place - head - AIR;
        await this.show();
      }
    } finally {
      this.jumps -= 1;
      this.keep();
      this.later();
    }
    if (focus) offerFocus(row);
    return row;
  }

  /** Read the rows in sight again: there are *count* rows now, and any of them may have changed. */
  async reload(count = this.count) {
    this.resize(count);
    const from = Math.max(0, this.pane.scrollTop - this.top());
    const first = this.heights.at(from);
    const last = this.heights.at(from + this.pane.clientHeight);
    const work = [];
    for (const [index, node] of [...this.chunks]) {
      if ((index >= first && index <= last) || node.contains(document.activeElement)) work.push(this.take(index));
      else this.drop(index, node);
    }
    await Promise.all(work);
    await this.show();
  }

  /** Take up rows that were added at the end; what is read stays as it is. @param {number} count */
  async grow(count) {
    const index = Math.max(0, Math.floor((this.count - 1) / PAGE));
    this.resize(count);
    for (const row of this.rows()) row.setAttribute("aria-setsize", String(count));
    if (this.chunks.has(index) || this.loading.has(index)) await this.take(index);
    await this.show();
  }

  close() {
    this.isClosed = true;
    this.observer.disconnect();
    this.pane.removeEventListener("scroll", this.onScroll);
  }
}

/**
 * @template {Page.Lists} N
 * @typedef {object} Keyed
 * @property {N} noun
 * @property {() => Page.Params} query
 * @property {(item: Page.Item<N>, before: Page.Item<N> | undefined) => Page.Child} draw
 * @property {() => Page.Child} [empty]
 * @property {(error: unknown) => HTMLElement} failed
 * @property {number} [limit]
 */

/**
 * A list that asks for its next page when its end comes into sight.
 * @template {Page.Lists} N
 */
export class KeyedList {
  /** @param {HTMLElement} pane @param {HTMLElement} holder @param {Keyed<N>} keyed */
  constructor(pane, holder, { noun, query, draw, empty, failed, limit = 50 }) {
    this.pane = pane;
    this.holder = holder;
    this.noun = noun;
    this.query = query;
    this.draw = draw;
    this.empty = empty;
    this.failed = failed;
    this.limit = limit;
    this.number = 0;
    this.isBusy = false;
    /** @type {Page.Item<N>[]} */
    this.items = [];
    /** @type {string | null} */
    this.next = null;
    /** @type {HTMLButtonElement | undefined} */
    this.pill = undefined;
    this.end = h("div", { "aria-hidden": "true" });
    this.end.style.height = "1px";
    this.observer = new IntersectionObserver((all) => {
      if (all.some((one) => one.isIntersecting)) this.more();
    }, { root: pane, rootMargin: "600px" });
    this.observer.observe(this.end);
  }

  async load() {
    const mine = (this.number += 1);
    this.isBusy = true;
    try {
      const wanted = Math.min(500, Math.max(this.limit, this.items.length));
      const found = await get(this.noun, { ...this.query(), limit: wanted });
      if (mine !== this.number) return;
      this.items = found.items;
      this.next = found.next;
      const before = this.holder.contains(document.activeElement) ? document.activeElement?.getAttribute("href") ?? null : null;
      this.pill?.remove();
      fill(this.holder, this.items.length ? this.items.map((item, index) => this.draw(item, this.items[index - 1])) : this.empty?.(), this.end);
      if (before !== null) htmlOf(this.holder.querySelectorAll(`[href="${CSS.escape(before)}"]`))[0]?.focus({ preventScroll: true });
    } catch (error) {
      if (mine === this.number) fill(this.holder, this.failed(error));
    } finally {
      if (mine === this.number) this.isBusy = false;
    }
  }

  /** Read the list again; while somebody reads further down, only say that it changed. */
  refresh() {
    if (this.pane.scrollTop < 40) return this.load();
    this.pill ??= h("button", { type: "button", class: "pill", onclick: () => { this.pane.scrollTop = 0; this.load(); } }, "Changed ↑");
    this.pane.append(this.pill);
    return undefined;
  }

  async more() {
    if (this.isBusy || !this.next) return;
    this.isBusy = true;
    const mine = this.number;
    try {
      const found = await get(this.noun, { ...this.query(), limit: this.limit, after: this.next });
      if (mine !== this.number) return;
      for (const item of found.items) {
        this.end.before(...fill(document.createElement("div"), this.draw(item, this.items.at(-1))).childNodes);
        this.items.push(item);
      }
      this.next = found.next;
      this.observer.unobserve(this.end);
      this.observer.observe(this.end);
    } catch (error) {
      this.end.before(this.failed(error));
      this.next = null;
    } finally {
      this.isBusy = false;
    }
  }
}
