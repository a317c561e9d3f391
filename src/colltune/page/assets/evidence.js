// How good decisions were on measured times, what they rest on, and where the bundle comes from.

import { el, field, fitted, notice, options, svg, table } from "./dom.js";
import { count, factor, percent, shortBytes, stamp, time } from "./words.js";

const SAMPLES = {
  held_out: "Held out: node counts left out of the fit, one at a time",
  unseen: "Not learned: shapes that the bundle was not fitted to",
  in_sample: "In-sample: shapes that the bundle was fitted to. If these are the measurements that it learned from, the figures flatter",
};
const NONE =
  "No measurements were given to compare with: colltune report --data FILE shows measured gains," +
  " and --held-out those on node counts left out of the fit.";
const MEASURED =
  "Gain and possible gain are geometric means over the default; slower: more than 5 % slower than" +
  " the default; inside: measured times in the predicted 90 % interval.";
const [HEIGHT, LEFT, TOP] = [180, 44, 8];

export async function evidenceView(app, slot, signal) {
  const found = await app.ask("v1/view/evidence", {}, slot, signal);
  if (!found) return [];
  const kinds = Object.keys(SAMPLES).filter((kind) => found.collectives.some((c) => of(c, kind)));
  return [
    el("h2", {}, "How good decisions are where the models had not seen the times"),
    heldOut(found),
    el("h2", {}, "Compared with measurements"),
    data(found),
    kinds.length ? kinds.map((kind) => measured(found, kind)) : notice("info", NONE),
    kinds.length ? found.collectives.filter((c) => c.samples.length).map(details) : null,
    el("h2", {}, "Where it comes from"),
    provenance(found, slot),
  ];
}

const of = (collective, kind) => collective.samples.find((one) => one.sample === kind);
const share = (value) => (value === null || value === undefined ? "–" : percent(value));

function heldOut({ collectives }) {
  const rows = collectives.map((one) => [
    one.mpi_name,
    one.learner,
    one.configurations,
    one.shapes,
    one.held_out.instances ?? "–",
    share(one.held_out.share),
    share(one.held_out.harm),
    one.default_measured ? "yes" : el("strong", {}, "NOT COMPARED"),
  ]);
  const head = [
    "collective",
    "learner",
    "configurations",
    "shapes",
    "held-out decisions",
    "of the possible gain",
    "slower than the default",
    "default measured",
  ];
  return table("Held-out decisions when it was fitted", head, rows, { cards: true });
}

function data({ data: found, not_in_bundle: missing }) {
  if (!found) return null;
  const days = found.days.length
    ? ` on ${count(found.days.length, "day")}, ${found.days[0]} to ${found.days.at(-1)}`
    : "";
  const launches = found.launches ? count(found.launches, "named launch") : "unnamed launches";
  return [
    el("p", {}, `${count(found.rows, "row")} from ${launches}${days}.`),
    missing.length
      ? notice("info", `The data also have ${missing.join(", ")}, of which it has no models.`)
      : null,
  ];
}

function measured({ collectives }, kind) {
  const head = ["collective", "compared", "gain", "possible", "of possible", "slower", "inside"];
  const rows = collectives.flatMap((one) => {
    const sample = of(one, kind);
    if (!sample) return [];
    const all = sample.decisions;
    return [
      [
        one.mpi_name,
        `${all.compared} of ${all.instances}`,
        all.compared ? factor(all.speedup) : el("strong", {}, "NOT COMPARED"),
        factor(all.oracle_speedup),
        share(all.log_gain_share),
        share(all.slower_share),
        share(sample.calibration[0].inside),
      ],
    ];
  });
  return [
    el("h3", {}, `${SAMPLES[kind]}.`),
    table(SAMPLES[kind], head, rows, { cards: true }),
    el("p", { class: "soft small" }, MEASURED),
  ];
}

// One collective: times by shape, then predicted beside measured.
function details(collective) {
  const [best] = collective.samples;
  return el(
    "details",
    {},
    el("summary", {}, `${collective.mpi_name}: times by shape, calibration, promised gains`),
    el("p", {}, `${SAMPLES[best.sample]}. 1 is the fastest that was measured; lower is better.`),
    times(best.shapes),
    collective.samples.map((one) => [
      el("h4", {}, `${SAMPLES[one.sample]}.`),
      calibration(one),
      bins(one),
    ]),
  );
}

function times(shapes) {
  const picture = el("div", { class: "picture" });
  const below = el("div", {});
  const draw = (one) => {
    picture.replaceChildren();
    fitted(picture, (width) => ratios(one, width));
    below.replaceChildren(timesTable(one));
  };
  const pairs = shapes.map((one, i) => [String(i), `${one.nodes} × ${one.ppn}`]);
  const onchange = (event) => draw(shapes[Number(event.target.value)]);
  const select = el("select", { onchange }, options(pairs, "0"));
  draw(shapes[0]);
  return [field("Nodes × processes per node", select), picture, below];
}

function timesTable(one) {
  const known = (seconds) => (seconds === null ? "–" : time(seconds));
  const rows = one.msize_bytes.map((size, i) => [
    shortBytes(size),
    one.names[i],
    known(one.default_s[i]),
    known(one.selected_s[i]),
    known(one.best_s[i]),
  ]);
  const head = ["bytes", "selected", "default", "selected takes", "best"];
  const told = table(`Times on ${one.nodes} × ${one.ppn}`, head, rows, { words: [1] });
  return el("details", {}, el("summary", {}, "The same as a table"), told);
}

// Times of the default and of what is selected over the best, logarithmic.
function ratios(one, width) {
  const over = (times) => times.map((t, i) => (t === null ? null : t / one.best_s[i]));
  const lines = { isdefault: over(one.default_s), chosen: over(one.selected_s) };
  const high = Math.log(Math.max(1.2, ...Object.values(lines).flat())) * 1.08;
  const n = one.msize_bytes.length;
  const x = (i) => LEFT + ((i + 0.5) / n) * (width - LEFT - 8);
  const y = (ratio) => TOP + HEIGHT * (1 - Math.log(ratio) / high);
  const ticks = [1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50].filter((at) => Math.log(at) < high);
  const each = Math.ceil(n / Math.max(2, Math.floor(width / 70)));
  return svg(
    "svg",
    {
      class: "plot",
      viewBox: `0 0 ${width} ${TOP + HEIGHT + 24}`,
      width,
      height: TOP + HEIGHT + 24,
      role: "img",
      "aria-label": "Times over the best by message size; the table below has the same numbers",
    },
    ticks.map((at) => [
      svg("line", { class: "grid", x1: LEFT, x2: width - 8, y1: y(at), y2: y(at) }),
      svg("text", { class: "tick gain-tick", x: LEFT - 5, y: y(at) + 4 }, `${at}×`),
    ]),
    one.msize_bytes.map((size, i) =>
      i % each ? null : svg("text", { class: "tick", x: x(i), y: TOP + HEIGHT + 16 }, shortBytes(size)),
    ),
    Object.entries(lines).map(([kind, values]) =>
      svg(
        "g",
        { class: kind },
        svg("title", {}, kind === "chosen" ? "selected" : "default"),
        parts(values).map((part) =>
          svg("polyline", { class: "ratio", points: part.map((i) => `${x(i)},${y(values[i])}`).join(" ") }),
        ),
        values.map((value, i) => (value === null ? null : mark(kind, x(i), y(value)))),
      ),
    ),
  );
}

// Neighbours that were measured: a line is broken where nothing was.
function parts(values) {
  const found = [[]];
  values.forEach((value, i) => (value === null ? found.push([]) : found.at(-1).push(i)));
  return found.filter((part) => part.length > 1);
}

function mark(kind, x, y) {
  return kind === "chosen"
    ? svg("circle", { class: "mark", cx: x, cy: y, r: 4 })
    : svg("path", { class: "mark", d: `M${x} ${y - 5}l5 5-5 5-5-5z` });
}

function calibration({ calibration: rows }) {
  const head = ["nodes", "times", "inside 90 %", "faster", "slower", "typical error"];
  const cells = rows.map((one) => [
    one.nodes ?? "all",
    one.times,
    share(one.inside),
    share(one.below),
    share(one.above),
    factor(one.typical_factor),
  ]);
  return table("Measured times beside predicted intervals", head, cells);
}

function bins({ gains }) {
  if (!gains.length) return el("p", {}, "No decision replaces the default where both were measured.");
  const head = ["predicted gain", "decisions", "median predicted", "measured", "slower", "reach the bound"];
  const rows = gains.map((one) => [
    one.last === null ? `${one.first} and more` : `${one.first} to ${one.last}`,
    one.decisions,
    factor(one.median_predicted),
    factor(one.median_measured),
    share(one.slower_share),
    share(one.above_bound_share),
  ]);
  return table("Predicted beside measured gains", head, rows);
}

function provenance(found, slot) {
  const facts = [
    ["bundle", el("code", {}, found.bundle)],
    ["machine", slot.machine],
    ["library", `${slot.library_title} ${slot.release}`],
    ["fabric", slot.fabric || "not stated"],
    ["statistic", `${slot.objective} of the runtime`],
    ["guard", found.guard],
    ["fitted", `${stamp(slot.created_utc)}, by colltune ${slot.colltune_version}`],
    ["fitted to", count(found.training_shapes.length, "shape")],
  ];
  const stated = Object.keys(found.stated).length
    ? el(
        "details",
        {},
        el("summary", {}, "What else the fit states"),
        el("pre", { tabindex: "0" }, JSON.stringify(found.stated, null, 1)),
      )
    : null;
  return [
    el(
      "dl",
      { class: "provenance" },
      facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
    ),
    el(
      "details",
      {},
      el("summary", {}, "The shapes that it was fitted to"),
      el("p", {}, found.training_shapes.join(", ")),
    ),
    stated,
  ];
}
