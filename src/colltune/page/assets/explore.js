// The decisions of one collective as a map, and the predictions behind any of them.

import { FILE } from "./api.js";
import { el, field, fitted, notice, options } from "./dom.js";
import { legend, mapGrid } from "./map.js";
import { plot, predictionTable, spoken, title, verdict } from "./panel.js";
import { SHOWS, atText, href, parseAt } from "./state.js";
import { factor, parseBytes, percent, shortId } from "./words.js";

const SHOW_NAMES = { choice: "Configuration", gain: "Gain", reason: "Reason", change: "Change" };
const HINT =
  "Point at a field, or walk with the arrow keys; a click or Enter shows all predictions.";
const MARKS =
  "Rows are nodes × processes per node, columns message sizes in bytes. Bold: measured; in italics:" +
  " not measured. Small: outside the measured range.";
const NO_DEFAULT =
  "The library's default was not measured: what is predicted fastest is used, and whether that is" +
  " any faster nobody knows.";
const COMPARED = "Compared with the bundle";
const FIRST = "No bundle was in force before this one, so that nothing can have changed.";
const SELECT = "colltune select --collective COLLECTIVE --nodes N --ppn P --msize BYTES";
const IN_FILE = "Point at a field, or walk with the arrow keys.";
const NUMBERS =
  "Whole numbers, please: nodes and processes per node from 1 on, a message such as 4096, 64K or" +
  " 1.5 MiB.";

let asking = new AbortController();

export async function mapView(app, slot, signal) {
  const { state } = app;
  const known = slot.collectives.map((one) => one.name);
  if (!known.length) return [notice("info", "This bundle has no models.")];
  const collective = known.includes(state.collective)
    ? state.collective
    : known.includes("allreduce")
      ? "allreduce"
      : known[0];
  const against = state.show === "change" ? (state.against || before(app, slot)) : null;
  const map = await app.ask("v1/view/map", { collective, against }, slot, signal);
  if (!map) return [];
  const readout = el("p", { class: "readout" }, FILE ? IN_FILE : HINT);
  const panel = el("section", { class: "panel", "aria-label": "Predictions" });
  const look = {
    show: state.show,
    measuredOnly: state.sizes === "measured",
    at: parseAt(state.at),
    readout: (text) => {
      readout.textContent = text;
    },
    pick: (nodes, ppn, msize) => FILE ?? asked(app, { map, slot, panel }, { nodes, ppn, msize }),
  };
  const summary = slot.collectives.find((one) => one.name === collective);
  const view = [
    controls(app, slot, collective),
    el("h2", {}, map.mpi_name, el("small", {}, ` ${facet(map, summary)}`)),
    summary.default_measured ? null : notice("warn", NO_DEFAULT),
    state.show === "change" ? notice("info", against ? `${COMPARED} ${shortId(against)}.` : FIRST) : null,
    el(
      "div",
      { class: "mapbox" },
      mapGrid(map, look),
      readout,
      legend(map, state.show),
      el("p", { class: "soft small" }, marks(map)),
    ),
    FILE ? el("p", { class: "soft small" }, "For any other instance: ", el("code", {}, SELECT)) : askForm(app, { map, slot, panel }),
    panel,
  ];
  if (state.at && !FILE) predictions(app, { map, slot, panel });
  return view;
}

// The bundle that was in force before the one that is shown, if any.
function before({ overview }, slot) {
  const event = overview.history.find((one) => one.bundle === slot.bundle && one.previous);
  return event?.previous ?? null;
}

function facet(map, summary) {
  const bound = map.mean_bound === null ? "" : `, at least ${factor(map.mean_bound)}`;
  return [
    ...(summary.held_out ? [summary.held_out] : []),
    `${percent(map.replaced_share)} of the measured fields use something else than the default`,
    ...(summary.default_measured ? [`mean predicted gain ${factor(map.mean_gain)}${bound}`] : []),
    `${summary.configurations} configurations, ${summary.shapes} shapes measured`,
    `learner ${summary.learner}`,
  ].join("; ");
}

function marks(map) {
  const more = [];
  if (map.block_per_rank) more.push("A message size is that of the block per process.");
  if (map.shapes_left_out) {
    more.push(`${map.shapes_left_out} measured shapes are not shown, for want of room.`);
  }
  return [MARKS, ...more].join(" ");
}

function controls({ state, go }, slot, collective) {
  const select = el(
    "select",
    { name: "collective", onchange: (event) => go({ collective: event.target.value }) },
    options(
      slot.collectives.map((one) => [one.name, one.mpi_name]),
      collective,
    ),
  );
  const radios = (FILE ? SHOWS.slice(0, -1) : SHOWS).map((show) =>
    el(
      "label",
      {},
      el("input", {
        type: "radio",
        name: "show",
        value: show,
        checked: state.show === show,
        onchange: () => go({ show }),
      }),
      SHOW_NAMES[show],
    ),
  );
  const only = el(
    "label",
    { class: "check" },
    el("input", {
      type: "checkbox",
      name: "measured-only",
      checked: state.sizes === "measured",
      onchange: (event) => go({ sizes: event.target.checked ? "measured" : "" }),
    }),
    "Measured sizes only",
  );
  return el(
    "div",
    { class: "controls" },
    field("Collective", select),
    el("fieldset", { class: "segments" }, el("legend", {}, "Fields show"), radios),
    only,
  );
}

// Any instance can be asked about, not only the map's.
function askForm(app, place) {
  const at = parseAt(app.state.at);
  const input = (name, value, width) =>
    el("input", {
      name,
      value: value ?? "",
      required: true,
      size: width,
      autocomplete: "off",
      inputmode: name === "msize" ? "text" : "numeric",
    });
  return el(
    "form",
    {
      class: "ask",
      onsubmit: (event) => {
        event.preventDefault();
        const given = new FormData(event.target);
        const msize = parseBytes(given.get("msize"));
        const [nodes, ppn] = ["nodes", "ppn"].map((name) => given.get(name).trim());
        const wanted = parseAt(`${nodes}x${ppn}x${msize ?? ""}`);
        app.say(wanted ? null : notice("bad", NUMBERS));
        if (wanted) asked(app, place, wanted);
      },
    },
    el("span", { class: "lead" }, "Any other instance:"),
    field("Nodes", input("nodes", at?.nodes, 6)),
    field("Processes per node", input("ppn", at?.ppn, 6)),
    field("Message", input("msize", at?.msize, 8)),
    el("button", { type: "submit" }, "Predict"),
  );
}

// Shows what is predicted for an instance that was asked for, and tells those who listen.
async function asked(app, place, at) {
  app.state.at = atText(at);
  app.remember();
  const found = await predictions(app, place);
  if (!found) return;
  document.getElementById("told").textContent = spoken(place.map, found);
  place.panel.querySelector(".columns").scrollIntoView({ block: "nearest" });
}

// Fills the panel with what the state asks for; returns what was found, null if nothing.
async function predictions(app, { map, slot, panel }) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const at = parseAt(app.state.at);
  if (!at) {
    panel.replaceChildren(notice("bad", `${app.state.at} in the address is no instance.`));
    return null;
  }
  panel.setAttribute("aria-busy", "true");
  try {
    const query = { collective: map.collective, ...at };
    const found = await app.ask("v1/view/predictions", query, slot, signal);
    if (signal.aborted || !found) return null;
    fill(panel, map, found, app.state);
    return found;
  } catch (error) {
    if (!signal.aborted) panel.replaceChildren(app.explain(error) ?? "");
    return null;
  } finally {
    if (!signal.aborted) panel.removeAttribute("aria-busy");
  }
}

function fill(panel, map, found, { slot, bundle }) {
  const { nodes, ppn, msize_bytes: msize } = found;
  const jobLink = href({ view: "job", slot: slot || found.slot, bundle, nodes, ppn });
  const picture = el("div", { class: "picture" });
  const columns = el("div", { class: "columns" }, verdict(map, found, jobLink), picture);
  panel.replaceChildren(el("h2", {}, title(map, found)), columns, predictionTable(map, found));
  fitted(picture, (width) => plot(map, found, width));
  const form = document.querySelector(".ask");
  for (const [name, value] of Object.entries({ nodes, ppn, msize })) {
    form?.elements[name].setAttribute("value", value);
  }
  form?.reset();
}
