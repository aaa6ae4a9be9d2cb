// Artifacts: names with their versions, differences, images, and the bytes to take away.
import { age, button, day, fill, findAll, h, headOf, longWords, number, offerFocus, plural, shown, size, words } from "../dom.js";
import { lineDiff } from "../diff.js";
import { address, failure, get, getText, send } from "../http.js";
import { KeyedList } from "../list.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"]);
const TEXT = /^(text\/|application\/(json|xml|javascript|x-yaml|yaml|toml|sql|x-sh|markdown))|\+(json|xml)$/;
const MOST_SHOWN = 2000000;
const MOST_IMAGE = 20000000;

/** @type {Page.Mount} */
export async function mount(root, ctx) {
  const list = h("section", { class: "pane", "aria-label": "Artifacts" });
  const detail = h("section", { class: "pane pad", "aria-label": "Artifact", tabindex: 0 });
  const panes = h("div", { class: "panes" }, list, detail);
  const rows = h("div", {});
  let params = ctx.params;
  /** @type {string | null} */
  let open = null;
  /** @type {Api.ArtifactVersion[]} */
  let versions = [];
  fill(root, panes);
  fill(list, headOf(h("h1", { tabindex: -1 }, "Artifacts")), rows);

  /** @param {Api.ArtifactVersion} one */
  const isImage = (one) => IMAGES.has(one.mime) && one.size_bytes <= MOST_IMAGE;
  /** @param {Page.ArtifactName} one */
  const at = (one, version = one.version) => ({ ...ctx.scope, session: one.session, name: one.name, version });
  /** @param {Page.ArtifactName} one */
  const keyOf = (one) => JSON.stringify([one.session ?? null, one.name]);
  /** @param {Api.ArtifactVersion} one @param {string} className */
  const image = (one, className) => {
    const node = h("img", { class: className, src: address("artifact/bytes", at(one)), alt: `version ${one.version} of ${shown(one.name)}`, loading: "lazy" });
    node.addEventListener("error", () => node.replaceWith(h("span", { class: "meta" }, "not shown: no image, or too large")));
    return node;
  };
  /** @type {KeyedList<"artifacts">} */
  const keyed = new KeyedList(list, rows, {
    noun: "artifacts", query: () => ctx.scope,
    draw: (one) => h("a", { class: "row", "data-go": true, "data-row": true, "data-key": keyOf(one), href: ctx.href("artifacts", { session: one.session, name: one.name }), "aria-current": keyOf(one) === open ? "true" : null },
      h("span", { class: "spread" }, h("span", { class: "kind-artifact" }, "▤ ", words(shown(one.name))), h("span", { class: "meta num" }, `v${number(one.version)}`)),
      h("span", { class: "meta" }, `${size(one.size_bytes)} · ${shown(one.mime ?? "")} · ${day(one.created_ms)}${one.session ? ` · ${shown(one.session)}` : ""}`)),
    failed: (error) => ctx.problem(error, () => keyed.load()),
    empty: () => h("div", { class: "empty" }, h("p", {}, "No artifacts."), h("p", {}, h("code", {}, "session.artifacts.save(name, text)"), " keeps a document; each save is a version.")),
  });

  function drawNone() {
    open = null;
    panes.removeAttribute("data-open");
    fill(detail, h("div", { class: "empty" }, "Choose an artifact."));
  }

  /** @param {Page.ArtifactName & { version: number }} one */
  const textOf = (one) => getText("artifact/bytes", at(one));

  /** @param {Api.ArtifactVersion} one @param {HTMLElement} holder */
  async function drawBody(one, holder) {
    if (isImage(one)) { fill(holder, image(one, "thumb")); return; }
    if (one.size_bytes > MOST_SHOWN) { fill(holder, h("p", {}, `${size(one.size_bytes)}: too large to show here. Download it.`)); return; }
    if (!TEXT.test(one.mime ?? "text/plain")) { fill(holder, h("p", {}, `${shown(one.mime)}, ${size(one.size_bytes)}: not text. Download it.`)); return; }
    fill(holder, h("pre", {}, longWords(await textOf(one), "code")));
  }

  /** @param {Api.ArtifactVersion} one @param {Api.ArtifactVersion} other @param {HTMLElement} holder */
  async function drawDiff(one, other, holder) {
    if (one.size_bytes > MOST_SHOWN || other.size_bytes > MOST_SHOWN) { fill(holder, h("p", {}, "Too large to compare here: download both.")); return; }
    const [before, after] = await Promise.all([textOf(other), textOf(one)]);
    fill(holder, lineDiff(before, after) ?? h("p", {}, "Too many lines differ to compare here: download both."));
  }

  async function openArtifact(isFocus = true) {
    const name = params.name;
    const session = params.session ?? null;
    open = JSON.stringify([session, name]);
    panes.setAttribute("data-open", "");
    findAll(rows, "[data-key]").forEach((row) => (row.dataset.key === open ? row.setAttribute("aria-current", "true") : row.removeAttribute("aria-current")));
    const mine = open;
    try {
      versions = (await get("artifact/versions", { ...ctx.scope, session, name })).items;
      if (mine !== open) return;
      if (!versions.length) { fill(detail, h("div", { class: "empty" }, "There is no such artifact: it was deleted, or never there.")); return; }
      const one = versions.find((version) => version.version === Number(params.version)) ?? versions[0];
      const against = params.against ? versions.find((version) => version.version === Number(params.against)) : null;
      ctx.setTitle(name ?? "");
      const heading = h("h2", { tabindex: -1, "aria-level": 1 }, h("span", { class: "kind-artifact" }, "▤ "), words(shown(name)));
      const body = h("div", { class: "wide" });
      /** @param {number} [version] @param {number} [other] */
      const link = (version, other) => ctx.href("artifacts", { session, name, version, against: other });
      const source = one.message_session ? h("a", { "data-go": true, href: ctx.href("conversations", { session: one.message_session, at: one.message_seq }) }, `${shown(one.message_session)}#${one.message_seq}`) : null;
      /** @param {number} [version] */
      const remove = async (version) => {
        const what = version ? `version ${version}` : `all ${plural(versions.length, "version")}`;
        const { close } = ctx.dialog(`Delete ${what}?`, h("p", {}, words(shown(name))), h("ul", {}, versions.filter((v) => !version || v.version === version).map((v) => h("li", {}, `version ${v.version}, ${size(v.size_bytes)}, ${day(v.created_ms)}`))), h("p", { class: "meta" }, "There is no undo."),
          h("div", { class: "tools" }, button(`Delete ${what}`, async () => {
            try { await send("DELETE", "artifact", { ...ctx.scope, session, name, version }); close(); await keyed.load(); if (version && versions.length > 1) ctx.go("artifacts", { session, name }); else ctx.go("artifacts"); } catch (error) { ctx.toast(failure(error).message); }
          }, { class: "danger" }), button("Keep", () => close(), { class: "primary" })));
      };
      const save = async () => {
        const area = h("textarea", { rows: 14, "aria-label": "Text", value: await textOf(one) });
        const { close } = ctx.dialog("Save a new version", area, h("div", { class: "tools" }, button("Save", async () => {
          try {
            const newest = await get("artifact", { ...ctx.scope, session, name });
            if (newest.version !== versions[0].version) { ctx.toast("Somebody saved a version since: look at it first."); return; }
            await send("PUT", "artifact", { ...ctx.scope, session, name }, { text: area.value, mime: one.mime }, newest.etag);
            close();
            ctx.go("artifacts", { session, name });
            ctx.toast("Saved as a new version.");
          } catch (error) { ctx.toast(failure(error).message); }
        }, { class: "primary" }), button("Cancel", () => close())));
        area.focus();
      };
      fill(detail, button("‹ Artifacts", () => ctx.up({}), { class: "quiet only-narrow" }), heading,
        h("p", { class: "meta" }, `version ${one.version} of ${versions[0].version} · ${size(one.size_bytes)} · ${shown(one.mime ?? "")} · `, age(one.created_ms), source ? " · saved at " : "", source),
        h("div", { class: "tools tight", role: "group", "aria-label": "Versions" }, versions.slice(0, 50).map((version) => h("a", { class: "chip", "data-go": true, href: link(version.version), "aria-current": version === one ? "true" : null }, `v${version.version}`))),
        h("div", { class: "tools" }, h("a", { href: address("artifact/bytes", at(one)), download: true }, "Download"),
          TEXT.test(one.mime ?? "") && one.size_bytes <= MOST_SHOWN && button("Copy", async () => ctx.copy(await textOf(one))),
          versions.length > 1 && h("label", {}, "Compare with", h("select", { onchange: (event) => ctx.go("artifacts", { session, name, version: one.version, against: event.target.value }) },
            h("option", { value: "" }, "nothing"), versions.filter((version) => version !== one).map((version) => h("option", { value: version.version, selected: version === against }, `v${version.version}`)))),
          ctx.readOnly ? null : [TEXT.test(one.mime ?? "") && one.size_bytes <= 500000 ? button("Save a new version …", save) : null,
            versions.length > 1 && button("Delete this version …", () => remove(one.version), { class: "danger" }), button(versions.length > 1 ? "Delete all versions …" : "Delete …", () => remove(), { class: "danger" })]),
        body);
      if (isFocus) offerFocus(heading);
      if (against) await drawDiff(one, against, body);
      else await drawBody(one, body);
    } catch (error) {
      if (mine === open) fill(detail, ctx.problem(error, openArtifact));
    }
  }

  const loading = ctx.scope.user === undefined ? fill(rows, keyed.empty?.()) : keyed.load();
  if (params.name) await openArtifact();
  else drawNone();
  await loading;
  /** @param {number} by */
  const step = (by) => () => {
    if (open === null) return false;
    const at = versions.findIndex((one) => one.version === (Number(params.version) || versions[0]?.version));
    const next = versions[at + by];
    if (next) ctx.go("artifacts", { session: params.session, name: params.name, version: next.version });
    return Boolean(next);
  };
  return {
    async update(next) {
      const before = open;
      params = next;
      if (next.name) await openArtifact();
      else { drawNone(); findAll(rows, "[data-key]").find((row) => row.dataset.key === before)?.focus(); }
    },
    async refresh(change = null) { if (!ctx.concerns(change, ["artifact"])) return; await keyed.refresh(); if (open !== null && !document.querySelector("dialog[open]")) await openArtifact(false); },
    close() { if (open === null) return false; ctx.up({}); return true; },
    keys: { "[": step(1), "]": step(-1) },
  };
}
