// Requests to the service this page came from, or to the facts inside the page's own file; every
// failure becomes a Problem in words for people.

const TIMEOUT_MS = 30000;
const inside = document.getElementById("inside");

// What a file holds: its views, when it was written, and answers by what asks for them.
export const FILE = inside ? JSON.parse(inside.textContent) : null;

export class Problem extends Error {
  constructor(status, title, detail, retryAfter) {
    super(detail || title);
    this.status = status;
    this.title = title;
    this.retryAfter = retryAfter;
  }
  get notReady() {
    return this.status === 503;
  }
  get offline() {
    return this.status === 0;
  }
}

function unreachable(late) {
  return new Problem(
    0,
    late ? "No answer" : "No connection",
    late
      ? "The service did not answer within 30 seconds."
      : "The service cannot be reached from this browser.",
  );
}

async function problem(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    /* not every proxy answers JSON */
  }
  const detail = typeof told?.detail === "string" ? told.detail : "";
  const title = typeof told?.title === "string" ? told.title : `HTTP ${response.status}`;
  const wait = Number(response.headers.get("Retry-After"));
  return new Problem(
    response.status,
    title,
    detail,
    Number.isFinite(wait) && wait > 0 ? wait : null,
  );
}

function held(path, { collective } = {}) {
  const data = FILE.answers[collective ? `${path}?collective=${collective}` : path];
  if (data) return { data, now: Date.now() };
  throw new Problem(404, "Not in this file", "A colltune service shows it: colltune serve.", null);
}

// The answer's JSON, and the service's clock at that moment in milliseconds.
export async function get(path, query, signal) {
  if (FILE) return held(path, query ?? {});
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  }
  const limit = new AbortController();
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    limit.abort();
  }, TIMEOUT_MS);
  const superseded = () => limit.abort();
  signal?.addEventListener("abort", superseded);
  try {
    const response = await fetch(url, {
      signal: limit.signal,
      headers: { Accept: "application/json" },
    });
    if (!response.ok) throw await problem(response);
    const now = Date.parse(response.headers.get("Date"));
    return { data: await response.json(), now: Number.isFinite(now) ? now : Date.now() };
  } catch (error) {
    if (error instanceof Problem) throw error;
    if (signal?.aborted) throw new DOMException("superseded", "AbortError");
    throw error instanceof SyntaxError
      ? new Problem(502, "Strange answer", "What answered is not the service: it sent no JSON.")
      : unreachable(late);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", superseded);
  }
}
