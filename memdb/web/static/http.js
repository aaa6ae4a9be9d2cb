// Requests to the JSON API of this file; nothing else is ever asked.

/** What the server refused: code, what failed, what to do. */
export class Problem extends Error {
  constructor(facts) {
    super(facts.detail ?? "The request failed.");
    Object.assign(this, facts);
  }
}

export const listeners = { signIn: () => {}, gone: () => {}, busy: () => {}, ended: (_code) => {} };

const API = "api/v1/";

/** Return an address of the API; lists repeat their name, null is left out. */
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

async function ask(url, options) {
  listeners.busy(1);
  try {
    let answer;
    try {
      answer = await fetch(url, { credentials: "same-origin", cache: "no-store", ...options });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw gone();
    }
    if (answer.ok) return answer;
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

/** Return the JSON of a read. */
export async function get(noun, query, { signal } = {}) {
  const answer = await ask(address(noun, query), { signal });
  const found = await answer.json();
  const etag = answer.headers.get("ETag");
  if (etag && found && typeof found === "object") Object.defineProperty(found, "etag", { value: etag });
  return found;
}

/** Return the objects of an answer of JSON lines; an answer that was cut is a Problem. */
export async function getLines(noun, query, options = {}) {
  const text = await (await ask(address(noun, query), options)).text();
  const all = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  if (all.pop()?.complete !== true) throw new Problem({ code: "cut", detail: "The answer was cut.", todo: "Try again." });
  return all;
}

/** Return the text of an answer that is no JSON. */
export async function getText(noun, query, options = {}) {
  return (await ask(address(noun, query), options)).text();
}

/** Write something, and return the answer's JSON; *etag* is that of what was read. */
export async function send(method, noun, query, body = {}, etag = null) {
  const headers = { "Content-Type": "application/json" };
  if (etag) headers["If-Match"] = etag;
  const answer = await ask(address(noun, query), { method, headers, body: method === "DELETE" ? undefined : JSON.stringify(body) });
  const text = await answer.text();
  const found = text ? JSON.parse(text) : {};
  const now = answer.headers.get("ETag");
  if (now) Object.defineProperty(found, "etag", { value: now });
  return found;
}

/** Sign in with the secret of a link; returns the code of what is wrong with it, "" if nothing. */
export async function signIn(secret) {
  const answer = await fetch("session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ secret }) });
  return answer.ok ? "" : (await answer.json().catch(() => ({}))).code ?? "sign_in";
}

/** Return what is served, null if this browser is not signed in. */
export async function whatIsServed() {
  const answer = await fetch("session", { cache: "no-store" });
  return answer.ok ? answer.json() : null;
}

export async function signOut() {
  await fetch("session", { method: "DELETE", headers: { "Content-Type": "application/json" } });
}

/** Return a function that runs only the newest call: an older one is aborted, its answer dropped. */
export function newest(call) {
  let current = null;
  return async (...given) => {
    current?.abort();
    const mine = (current = new AbortController());
    try {
      const found = await call(mine.signal, ...given);
      return current === mine ? found : undefined;
    } catch (error) {
      if (error.name === "AbortError" || current !== mine) return undefined;
      throw error;
    }
  };
}

/** Return the answer of a read that takes its question in the body: it changes nothing. */
get.post = (noun, body) => send("POST", noun, {}, body);
