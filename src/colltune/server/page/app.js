// The page: reads the state in the address, asks the service, shows the answer.

import { Problem, get } from "./api.js";
import { button, el, field, notice, options } from "./dom.js";
import { historyView } from "./history.js";
import { jobAnswer, jobForm } from "./job.js";
import { legend, mapGrid } from "./map.js";
import { plot, predictionTable, spoken, title, verdict } from "./panel.js";
import { SHOWS, atText, href, parseAt, read } from "./state.js";
import { age, factor, parseBytes, percent, shortId, stamp } from "./words.js";

const POLL_MS = 15000;
const NOT_READY_MS = 3000;
const SLOW_MS = 400;
const SHOW_NAMES = { choice: "Configuration", gain: "Gain", reason: "Reason" };

const main = document.getElementById("main");
const notices = document.getElementById("notices");
const facts = document.getElementById("facts");

let overview = null;
let now = Date.now();
let state = read();
let starting = new AbortController();
let drawing = new AbortController();
let asking = new AbortController();
let timer = null;
let changed = null;

// --- what is shown at the top --------------------------------------------------------------------

function slotOf(name) {
  return overview.slots.find((one) => one.slot === name) ?? overview.slots[0];
}

// The bundle that is looked at: one that the address names, or the one in force.
function shown() {
  return overview.looked_at ?? slotOf(state.slot);
}

function header() {
  const slot = shown();
  document.getElementById("machine").textContent = slot.machine;
  document.title = `colltune: ${slot.machine}`;
  const select = el("select", { name: "in-force", onchange: (event) => go({ slot: event.target.value, bundle: "", at: "" }) },
    options(overview.slots.map((one) => [one.slot, `${one.library_title} ${one.release}`]), slot.slot));
  const span = ([low, high]) => (low === high ? `${low}` : `${low}–${high}`);
  const items = [
    ["bundle", el("code", { title: slot.bundle }, shortId(slot.bundle))],
    ["fitted", el("time", { datetime: slot.created_utc, title: stamp(slot.created_utc) }, age(slot.created_utc, now))],
    overview.looked_at ? null
      : ["in force since", el("time", { datetime: slot.since_utc, title: stamp(slot.since_utc) }, age(slot.since_utc, now))],
    ["objective", `${slot.objective} of the runtime`],
    ["measured on", `${span(slot.nodes)} nodes, ${span(slot.ppn)} per node`],
    slot.fabric ? ["fabric", slot.fabric] : null,
    ["all figures", el("a", { href: `v1/bundles/${encodeURIComponent(slot.bundle)}/report` }, "report")],
  ];
  facts.replaceChildren(field("Library", select), el("dl", {}, items.filter(Boolean).map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
  for (const link of document.querySelectorAll("nav [data-view]")) {
    const here = link.dataset.view === state.view;
    link.href = href({ ...state, view: link.dataset.view });
    if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
}

// One line at a time, read out by screen readers; the offer to reload stays until it is taken.
function say(...content) {
  const offered = changed === null ? [] : [notice("warn", `${changed} `, button("Show the new one", reload, { class: "primary" }))];
  const faults = (overview?.warnings ?? []).map((text) => notice("bad", text));
  const other = overview?.looked_at;
  const looking = other && overview.slots.every((one) => one.bundle !== other.bundle)
    ? [notice("warn", `You look at ${shortId(other.bundle)}, which is not in force for ${other.library_title} ${other.release}. `,
      button("Back to what is in force", () => go({ bundle: "", slot: other.slot })))] : [];
  notices.replaceChildren(...offered, ...looking, ...faults, ...content.filter(Boolean));
}

function explain(error) {
  if (error.name === "AbortError") return null;
  if (!(error instanceof Problem)) return notice("bad", "This page has a fault; please report it. ", el("code", {}, String(error)));
  const wait = error.retryAfter === null ? "" : ` Try again in ${error.retryAfter} s.`;
  return el("div", { class: "notice bad" }, el("strong", {}, error.title), `: ${error.message}${wait} `,
    button("Try again", () => (overview ? draw() : start())));
}

// --- the views -----------------------------------------------------------------------------------

function where(slot) {
  return { library: slot.library, release: slot.release, bundle: state.bundle };
}

// Answers of another bundle than the one shown are not mixed with it.
function sameBundle(answer, slot) {
  if (answer.bundle === slot.bundle) return true;
  offer(slot, answer.bundle);
  return false;
}

function offer(slot, bundle) {
  changed = `Meanwhile another bundle is in force for ${slot.library_title} ${slot.release}: ${shortId(bundle)} instead of ${shortId(slot.bundle)}.`;
  say();
}

async function reload() {
  await start();
}

async function mapView(slot, signal) {
  const known = slot.collectives.map((one) => one.name);
  if (!known.length) return [notice("info", "This bundle has no models.")];
  const collective = known.includes(state.collective) ? state.collective : known.includes("allreduce") ? "allreduce" : known[0];
  const { data: map } = await get("v1/view/map", { ...where(slot), collective }, signal);
  if (!sameBundle(map, slot)) return [];
  const readout = el("p", { class: "readout" }, "Point at a field, or walk with the arrow keys; a click or Enter shows all predictions.");
  const panel = el("section", { class: "panel", "aria-label": "Predictions" });
  const look = { show: state.show, measuredOnly: state.sizes === "measured", at: parseAt(state.at),
    readout: (text) => { readout.textContent = text; },
    pick: (nodes, ppn, msize) => { state.at = atText({ nodes, ppn, msize }); remember(); predictions(map, slot, panel, true); } };
  const summary = slot.collectives.find((one) => one.name === collective);
  const view = [controls(slot, collective), el("h2", {}, map.mpi_name, el("small", {}, ` ${facet(map, summary)}`)),
    summary.default_measured ? null : notice("warn", "The library's default was not measured: what is predicted fastest is used, and whether that is any faster nobody knows."),
    el("div", { class: "mapbox" }, mapGrid(map, look), readout, legend(map, state.show),
      el("p", { class: "soft small" }, marks(map))), askForm(map, slot, panel), panel];
  if (state.at) predictions(map, slot, panel);
  return view;
}

function facet(map, summary) {
  const bound = map.mean_bound === null ? "" : `, at least ${factor(map.mean_bound)}`;
  return `${percent(map.replaced_share)} of the measured fields use something else than the default; `
    + `mean predicted gain ${factor(map.mean_gain)}${bound}; ${summary.configurations} configurations, ${summary.shapes} shapes measured, learner ${summary.learner}`;
}

function marks(map) {
  const left = map.shapes_left_out ? ` ${map.shapes_left_out} measured shapes are not shown, for want of room.` : "";
  const block = map.block_per_rank ? " A message size is that of the block per process." : "";
  return `Rows are nodes × processes per node, columns message sizes in bytes. Bold: measured; in italics: not measured. Small: outside the measured range.${block}${left}`;
}

function controls(slot, collective) {
  const select = el("select", { name: "collective", onchange: (event) => go({ collective: event.target.value }) },
    options(slot.collectives.map((one) => [one.name, one.mpi_name]), collective));
  const radios = SHOWS.map((show) => el("label", {}, el("input", { type: "radio", name: "show", value: show,
    checked: state.show === show, onchange: () => go({ show }) }), SHOW_NAMES[show]));
  const only = el("label", { class: "check" }, el("input", { type: "checkbox", name: "measured-only", checked: state.sizes === "measured",
    onchange: (event) => go({ sizes: event.target.checked ? "measured" : "" }) }), "Measured sizes only");
  return el("div", { class: "controls" }, field("Collective", select),
    el("fieldset", { class: "segments" }, el("legend", {}, "Fields show"), radios), only);
}

// Any instance can be asked about, not only the map's.
function askForm(map, slot, panel) {
  const at = parseAt(state.at);
  const input = (name, value, width) => el("input", { name, value: value ?? "", required: true, size: width, autocomplete: "off",
    inputmode: name === "msize" ? "text" : "numeric" });
  return el("form", { class: "ask", onsubmit: (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const msize = parseBytes(given.get("msize"));
    const asked = parseAt(`${given.get("nodes").trim()}x${given.get("ppn").trim()}x${msize ?? ""}`);
    if (!asked) { say(notice("bad", "Whole numbers, please: nodes and processes per node from 1 on, a message such as 4096, 64K or 1.5 MiB.")); return; }
    say();
    state.at = atText(asked);
    remember();
    predictions(map, slot, panel, true);
  } },
    el("span", { class: "lead" }, "Any other instance:"),
    field("Nodes", input("nodes", at?.nodes, 6)), field("Processes per node", input("ppn", at?.ppn, 6)),
    field("Message", input("msize", at?.msize, 8)), el("button", { type: "submit" }, "Predict"));
}

async function predictions(map, slot, panel, asked = false) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const at = parseAt(state.at);
  if (!at) { panel.replaceChildren(notice("bad", `The address asks for ${state.at}, which is no instance.`)); return; }
  panel.setAttribute("aria-busy", "true");
  try {
    const { data: found } = await get("v1/view/predictions", { ...where(slot), collective: map.collective, ...at }, signal);
    if (signal.aborted || !sameBundle(found, slot)) return;
    const picture = el("div", { class: "picture" });
    const jobLink = href({ view: "job", slot: slot.slot, bundle: state.bundle, nodes: found.nodes, ppn: found.ppn });
    const columns = el("div", { class: "columns" }, verdict(map, found, jobLink), picture);
    panel.replaceChildren(el("h2", {}, title(map, found)), columns, predictionTable(map, found));
    fitted(picture, (width) => plot(map, found, width));
    for (const name of ["nodes", "ppn", "msize"]) document.querySelector(`.ask [name="${name}"]`)?.setAttribute("value", at[name]);
    document.querySelector(".ask")?.reset();
    if (asked) {
      document.getElementById("told").textContent = spoken(map, found);
      columns.scrollIntoView({ block: "nearest" });
    }
  } catch (error) {
    if (!signal.aborted) panel.replaceChildren(explain(error) ?? "");
  } finally {
    if (!signal.aborted) panel.removeAttribute("aria-busy");
  }
}

// Draws to the width there is, and again when that changes.
function fitted(box, drawn) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== last) { last = width; box.replaceChildren(drawn(width)); }
  }).observe(box);
}

async function jobView(slot, signal) {
  const writable = overview.slots.filter((one) => !one.not_written);
  const head = [el("h2", {}, "A configuration for my job"), el("p", { class: "soft" },
    "Say how large the job is: you get the file for its MPI library, and the line that puts it into effect. Shapes that were never measured work, too; it says what that means.")];
  if (!writable.length) return [...head, notice("warn", `No file can be written: ${slot.not_written}`)];
  const form = jobForm(writable, { ...state, slot: slot.slot }, (asked) => go(asked.slot === slot.slot ? asked : { ...asked, bundle: "" }));
  const blocked = slot.not_written ? notice("warn", `${slot.library_title} ${slot.release}: ${slot.not_written}`) : null;
  if (blocked || !state.nodes || !state.ppn) return [...head, form, blocked];
  const asked = { ...where(slot), nodes: state.nodes, ppn: state.ppn, format: state.format };
  try {
    const { data: job } = await get("v1/view/job", asked, signal);
    if (!sameBundle(job, slot)) return [];
    return [...head, form, el("section", { class: "answer" }, jobAnswer(job, slot, (text) => say(notice("info", text))))];
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return [...head, form, explain(error)];
  }
}

// --- drawing and moving --------------------------------------------------------------------------

const VIEWS = { map: mapView, job: jobView, history: () => historyView(overview, now) };

async function draw({ focus } = {}) {
  drawing.abort();
  asking.abort();
  drawing = new AbortController();
  const { signal } = drawing;
  header();
  say(state.slot && !overview.slots.some((one) => one.slot === state.slot)
    ? notice("warn", `Nothing is in force for ${state.slot}; shown is ${slotOf("").slot}.`) : null);
  main.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => main.replaceChildren(el("p", { class: "loading" }, "Computing…")), SLOW_MS);
  try {
    const content = await VIEWS[state.view](shown(), signal);
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

function remember() {
  const target = href(state);
  if (target !== location.hash) history.pushState(null, "", target);
  if (overview) header();
}

// Changes the state, keeping the focus on what was used to change it.
function go(change) {
  const used = document.activeElement;
  const which = used?.type === "radio" ? `[value="${used.value}"]` : "";
  const focus = change.nodes ? ".answer h2" : used?.name ? `[name="${used.name}"]${which}` : null;
  const other = change.bundle !== undefined && change.bundle !== state.bundle;
  state = { ...state, ...change };
  remember();
  if (other) start(); else draw({ focus });
}

function moved() {
  const before = state.bundle;
  state = read();
  if (state.bundle !== before) start();
  else if (overview) draw();
}

// --- beginning, and keeping up -------------------------------------------------------------------

async function start() {
  clearTimeout(timer);
  starting.abort();
  starting = new AbortController();
  const { signal } = starting;
  try {
    const answer = await get("v1/view", { bundle: state.bundle }, signal);
    overview = answer.data;
    now = answer.now;
    if (!overview.slots.length) throw new Problem(503, "Nothing is in force", "The registry has no bundle that was promoted.");
    changed = null;
    document.getElementById("foot").textContent = `colltune ${overview.colltune_version}.`;
    await draw();
    timer = setTimeout(watch, POLL_MS);
  } catch (error) {
    if (signal.aborted) return;
    overview = null;
    facts.replaceChildren();
    if (error.notReady) {
      main.replaceChildren(el("div", { class: "waiting" }, el("h2", {}, "The service is not ready yet"), el("p", {}, error.message), el("p", { class: "soft" }, "This page tries again by itself.")));
      timer = setTimeout(start, error.retryAfter === null ? NOT_READY_MS : error.retryAfter * 1000);
    } else {
      const away = state.bundle ? button("Show what is in force", () => go({ bundle: "" })) : "";
      main.replaceChildren(explain(error) ?? "", away);
    }
  }
}

// Looks whether another bundle came into force; a service that is away for a moment is no matter.
async function watch() {
  clearTimeout(timer);
  if (document.visibilityState === "visible") {
    try {
      const { data, now: told } = await get("v1/view");
      now = told;
      const slot = shown();
      const fresh = data.slots.find((one) => one.slot === slot.slot);
      if (fresh && fresh.bundle !== slot.bundle && !overview.looked_at) offer(slot, fresh.bundle);
    } catch { /* the next request that matters will say so */ }
  }
  timer = setTimeout(watch, POLL_MS);
}

addEventListener("popstate", moved);
document.addEventListener("visibilitychange", () => { if (overview && document.visibilityState === "visible") watch(); });
start();
