// The page: reads the state in the address, asks the service, shows the answer.

import { FILE, Problem, get } from "./api.js";
import { button, el, notice } from "./dom.js";
import { evidenceView } from "./evidence.js";
import { mapView } from "./explore.js";
import { frontView } from "./front.js";
import { gainsView } from "./gains.js";
import { historyView } from "./history.js";
import { jobView } from "./job.js";
import { productionView } from "./production.js";
import { href, read } from "./state.js";
import { header, standing } from "./top.js";
import { shortId } from "./words.js";

const POLL_MS = 15000;
const NOT_READY_MS = 3000;
const SLOW_MS = 400;
const LIVE = ["front", "production"];
const VIEWS = {
  front: frontView,
  gains: gainsView,
  map: mapView,
  job: jobView,
  evidence: evidenceView,
  production: productionView,
  history: historyView,
};

const main = document.getElementById("main");
const notices = document.getElementById("notices");

// What views are given: the state in the address, what is in force by the service's clock, why
// there is something newer, and what they may do.
const app = {
  state: read(),
  overview: null,
  now: Date.now(),
  newer: "",
  ask,
  explain,
  go,
  remember,
  say,
  start,
};
let starting = new AbortController();
let drawing = new AbortController();
let timer = null;

function slotOf(name) {
  return app.overview.slots.find((one) => one.slot === name) ?? app.overview.slots[0];
}

// The bundle that is looked at: one that the address names, or the one in force.
function shown() {
  return app.overview.looked_at ?? slotOf(app.state.slot);
}

// Replaces what is told at the top, which screen readers read out.
function say(...content) {
  notices.replaceChildren(...standing(app), ...content.filter(Boolean));
}

// Returns an error as a notice, null where there is nothing to tell.
function explain(error) {
  if (error.name === "AbortError") return null;
  if (!(error instanceof Problem)) {
    const what = el("code", {}, String(error));
    return notice("bad", "This page has a fault; please report it. ", what);
  }
  const wait = error.retryAfter === null ? "" : ` Try again in ${error.retryAfter} s.`;
  return el(
    "div",
    { class: "notice bad" },
    el("strong", {}, error.title),
    `: ${error.message}${wait} `,
    button("Try again", () => (app.overview ? draw() : start())),
  );
}

// Returns the service's answer about the bundle that is shown. What another bundle answers is never
// mixed with that: then it is null, and the page offers to show the other one as a whole.
async function ask(path, query, slot, signal) {
  const whose = { library: slot.library, release: slot.release, bundle: app.state.bundle };
  const { data } = await get(path, { ...whose, ...query }, signal);
  if (data.bundle === slot.bundle) return data;
  offer(slot, data.bundle);
  return null;
}

function offer(slot, bundle) {
  const release = `${slot.library_title} ${slot.release}`;
  const change = `${shortId(bundle)} instead of ${shortId(slot.bundle)}`;
  app.newer = `Meanwhile another bundle is in force for ${release}: ${change}.`;
  say();
}

async function draw({ focus } = {}) {
  drawing.abort();
  drawing = new AbortController();
  const { signal } = drawing;
  const { slot } = app.state;
  header(app, shown());
  const unknown = slot && !app.overview.slots.some((one) => one.slot === slot);
  const instead = `Nothing is in force for ${slot}; shown is ${shown()?.slot}.`;
  say(unknown && !app.overview.looked_at ? notice("warn", instead) : null);
  main.setAttribute("aria-busy", "true");
  const waiting = () => main.replaceChildren(el("p", { class: "loading" }, "Computing…"));
  const slow = setTimeout(waiting, SLOW_MS);
  try {
    const content = await VIEWS[app.state.view](app, shown(), signal);
    if (signal.aborted) return;
    main.replaceChildren(...content.flat(2).filter(Boolean));
    if (focus) document.querySelector(focus)?.focus();
  } catch (error) {
    if (!signal.aborted) main.replaceChildren(explain(error) ?? "");
  } finally {
    clearTimeout(slow);
    if (!signal.aborted) main.removeAttribute("aria-busy");
  }
}

// Puts the state into the address.
function remember() {
  const target = href(app.state);
  if (target !== location.hash) history.pushState(null, "", target);
  if (app.overview) header(app, shown());
}

// Changes the state, keeping the focus on what was used to change it.
function go(change) {
  const used = document.activeElement;
  const which = used?.type === "radio" ? `[value="${used.value}"]` : "";
  const focus = change.nodes ? ".answer h2" : used?.name ? `[name="${used.name}"]${which}` : null;
  const isOther = change.bundle !== undefined && change.bundle !== app.state.bundle;
  app.state = { ...app.state, ...change };
  remember();
  if (isOther) start();
  else draw({ focus });
}

function moved() {
  const { bundle } = app.state;
  app.state = read();
  if (app.state.bundle !== bundle) start();
  else if (app.overview) draw();
}

async function start() {
  clearTimeout(timer);
  starting.abort();
  starting = new AbortController();
  const { signal } = starting;
  try {
    const { data, now } = await get("v1/view", { bundle: app.state.bundle }, signal);
    Object.assign(app, { overview: data, now, newer: "" });
    document.getElementById("foot").textContent = `colltune ${data.colltune_version}.`;
    await draw();
    if (!FILE) timer = setTimeout(watch, POLL_MS);
  } catch (error) {
    if (!signal.aborted) failed(error);
  }
}

function failed(error) {
  app.overview = null;
  document.getElementById("facts").replaceChildren();
  if (error.notReady) {
    const again = el("p", { class: "soft" }, "This page tries again by itself.");
    const text = el("p", {}, error.message);
    const heading = el("h2", {}, "The service is not ready yet");
    main.replaceChildren(el("div", { class: "waiting" }, heading, text, again));
    timer = setTimeout(start, error.retryAfter === null ? NOT_READY_MS : error.retryAfter * 1000);
    return;
  }
  const away = button("Show what is in force", () => go({ bundle: "" }));
  main.replaceChildren(explain(error) ?? "", app.state.bundle ? away : "");
}

// Whether somebody has unfolded something, or is at it with the keyboard.
function isInUse() {
  return main.querySelector("details[open]") || main.contains(document.activeElement);
}

// Brings the front or production up to date, and looks whether another bundle came into force; a service that is
// away for a moment is no matter.
async function watch() {
  clearTimeout(timer);
  if (document.visibilityState === "visible" && app.overview) {
    try {
      const { data, now } = await get("v1/view");
      const slot = shown();
      const fresh = data.slots.find((one) => one.slot === slot.slot);
      const isNews = String(data.warnings) !== String(app.overview.warnings);
      app.now = now;
      app.overview.warnings = data.warnings;
      if (fresh && fresh.bundle !== slot.bundle && !app.overview.looked_at) {
        offer(slot, fresh.bundle);
      } else if (LIVE.includes(app.state.view) && !isInUse()) {
        await draw();
      } else if (isNews) {
        say();
      }
    } catch {
      // the next request that matters will say so
    }
  }
  timer = setTimeout(watch, POLL_MS);
}

addEventListener("popstate", moved);
document.addEventListener("visibilitychange", () => {
  if (app.overview && !FILE && document.visibilityState === "visible") watch();
});
start();
