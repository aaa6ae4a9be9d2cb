// Requests to the JSON API of this file; nothing else is ever asked.

/** What the server refused: code, what failed, what to do. */
export class Problem extends Error {
  /** @type {number | undefined} */ status;
  /** @type {string | undefined} */ code;
  /** @type {string | undefined} */ todo;

  /** @param {{ status?: number, code?: string, detail?: string, todo?: string }} facts */
  constructor(facts) {
    super(facts.detail ?? "The request failed.");
    Object.assign(this, facts);
  }
}

/** @type {{ signIn: () => void, gone: () => void, busy: (by: number) => void, ended: (code: string | undefined) => void }} */
export const listeners = { signIn: () => {}, gone: () => {}, busy: () => {}, ended: () => {} };

const API = "api/v1/";

/** Return what an error says of itself; what was thrown and is none is its own message. @param {unknown} error @returns {Page.Failure} */
export const failure = (error) => (error instanceof Error ? error : { name: "Error", message: String(error) });

/** @typedef {{ signal?: AbortSignal }} Options */

/** Return an address of the API; lists repeat their name, null is left out. @param {string} noun @param {Page.Params} query */
export function address(noun, query = {}) {
  const all = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) {
      all.append(name, typeof one === "object" ? JSON.stringify(one) : String(one));
    }
  }
  const text = all.toString();
  return `${API}${noun}${text ? `?${text}` : ""}`;
}

/** Note that nobody answers, and return what to say of it. */
export function gone() {
  listeners.gone();
  return new Problem({ code: "gone", detail: "The server does not answer.", todo: "Start `memdb web` again; this page tries every 2 seconds." });
}

/** @param {string} url @param {RequestInit} options */
async function ask(url, options) {
  listeners.busy(1);
  try {
    let answer;
    try {
      answer = await fetch(url, { credentials: "same-origin", cache: "no-store", ...options });
    } catch (error) {
      if (failure(error).name === "AbortError") throw error;
      throw gone();
    }
    if (answer.ok) return answer;
    /** @type {{ detail?: string, code?: string }} */
    let facts = {};
    try {
      facts = await answer.json();
    } catch {
      facts = { detail: `The server answered ${answer.status}.` };
    }
    if (answer.status === 401) listeners.signIn();
    else listeners.ended(facts.code);
    throw new Problem({ status: answer.status, ...facts });
  } finally {
    listeners.busy(-1);
  }
}

/**
 * Return the JSON of a read, with its `etag` if it has a version.
 * @template {keyof Api.Get} N
 * @param {N} noun
 * @param {Page.Params} [query]
 * @param {Options} options
 * @returns {Promise<Api.Get[N] & { etag?: string }>}
 */
export async function get(noun, query, { signal } = {}) {
  const answer = await ask(address(noun, query), { signal });
  const found = await answer.json();
  const etag = answer.headers.get("ETag");
  if (etag && found && typeof found === "object") Object.defineProperty(found, "etag", { value: etag });
  return found;
}

/**
 * Return the objects of an answer of JSON lines; an answer that was cut is a Problem.
 * @param {string} noun
 * @param {Page.Params} query
 * @param {Options} options
 */
export async function getLines(noun, query, options = {}) {
  const text = await (await ask(address(noun, query), options)).text();
  const all = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  if (all.pop()?.complete !== true) throw new Problem({ code: "cut", detail: "The answer was cut.", todo: "Try again." });
  return all;
}

/** Return the text of an answer that is no JSON. @param {string} noun @param {Page.Params} query @param {Options} options */
export async function getText(noun, query, options = {}) {
  return (await ask(address(noun, query), options)).text();
}

/** @typedef {{ POST: Api.Post, PUT: Api.Put, PATCH: Api.Patch, DELETE: Api.Delete }} Writes */

/**
 * Write something, and return the answer's JSON; *etag* is that of what was read.
 * @template {keyof Writes} M
 * @template {string & keyof Writes[M]} N
 * @param {M} method
 * @param {N} noun
 * @param {Page.Params} query
 * @param {unknown} body
 * @param {string | null} [etag]
 * @returns {Promise<Writes[M][N] & { etag?: string }>}
 */
export async function send(method, noun, query, body = {}, etag = null) {
  /** @type {Record<string, string>} */
  const headers = { "Content-Type": "application/json" };
  if (etag) headers["If-Match"] = etag;
  const answer = await ask(address(noun, query), { method, headers, body: method === "DELETE" ? undefined : JSON.stringify(body) });
  const text = await answer.text();
  const found = text ? JSON.parse(text) : {};
  const now = answer.headers.get("ETag");
  if (now) Object.defineProperty(found, "etag", { value: now });
  return found;
}

/** Sign in with the secret of a link; returns the code of what is wrong with it, "" if nothing. @param {string} secret @returns {Promise<string>} */
export async function signIn(secret) {
  const answer = await fetch("session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ secret }) });
  return answer.ok ? "" : (await answer.json().catch(() => ({}))).code ?? "sign_in";
}

/** Return what is served, null if this browser is not signed in. @returns {Promise<Page.About | null>} */
export async function whatIsServed() {
  const answer = await fetch("session", { cache: "no-store" });
  return answer.ok ? answer.json() : null;
}

export async function signOut() {
  await fetch("session", { method: "DELETE", headers: { "Content-Type": "application/json" } });
}

/**
 * Return a function that runs only the newest call: an older one is aborted, its answer dropped.
 * @template {unknown[]} A
 * @template R
 * @param {(signal: AbortSignal, ...given: A) => Promise<R>} call
 * @returns {(...given: A) => Promise<R | undefined>}
 */
export function newest(call) {
  /** @type {AbortController | null} */
  let current = null;
  return async (...given) => {
    current?.abort();
    const mine = (current = new AbortController());
    try {
      const found = await call(mine.signal, ...given);
      return current === mine ? found : undefined;
    } catch (error) {
      if (failure(error).name === "AbortError" || current !== mine) return undefined;
      throw error;
    }
  };
}

/** Return the answer of a read that takes its question in the body: it changes nothing. @type {(noun: "query", body: unknown) => Promise<{ columns: string[], rows: any[][], has_more: boolean }>} */
get.post = async (noun, body) => {
  const found = await send("POST", noun, {}, body);
  return { ...found, rows: Array.isArray(found.rows) ? found.rows : [] };
};
