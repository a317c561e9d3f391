// What a bundle gains over the library's default along the message size, and how sure that is.

import { el, field, fitted, notice, options, svg, table } from "./dom.js";
import { href } from "./state.js";
import { factor, range, shortBytes, withCode } from "./words.js";

const STANDINGS = {
  confirmed: ["C", "confirmed: measured beside the default, with its 95 % interval"],
  predicted: ["P", "predicted only: the bar reaches down to its lower bound"],
  withdrawn: ["W", "withdrawn: measured, and not proven faster; the default is kept"],
  unknown: ["N", "not compared: the default was not measured, so that no gain is known"],
  kept: ["·", "the default is kept"],
};
const [HEIGHT, LEFT, RIGHT, TOP, STRIP, AXIS] = [132, 40, 10, 8, 18, 20];
const TICKS = [0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100];

export async function gainsView(app, slot, signal) {
  const found = await app.ask("v1/view/gains", {}, slot, signal);
  if (!found) return [];
  const shape = asked(found, app.state);
  const shown = found.collectives.map((one) => [one, shape ? at(one, shape) : best(one)]);
  const measured = shown.filter(([, of]) => of);
  const isChanged = ([, of]) => of.ranges.some((each) => each.standing !== "kept");
  const changed = measured.filter(isChanged);
  const list = (pairs) => pairs.map(([one]) => one.mpi_name);
  return [
    el("h2", { class: "lead" }, found.sentence),
    el("p", { class: "soft small" }, `Decisions are for ${found.promise}.`),
    found.cautions.map((text) => notice("warn", withCode(text))),
    el("div", { class: "controls" }, shapes(app, found, shape), legend(changed)),
    el("div", { class: "gains" }, changed.map(([one, of]) => card(app, one, of))),
    names("The default is kept for ", list(measured.filter((pair) => !isChanged(pair)))),
    names("Not measured on this shape: ", list(shown.filter(([, of]) => !of))),
  ];
}

function names(what, list) {
  return list.length ? el("p", {}, `${what}${list.join(", ")}.`) : null;
}

const key = (one) => `${one.nodes}x${one.ppn}`;
const at = (collective, shape) => collective.shapes.find((one) => key(one) === shape);

// The shape in the address, empty if there is none of which anything is known.
function asked({ collectives }, { nodes, ppn }) {
  const shape = `${nodes}x${ppn}`;
  return collectives.some((one) => at(one, shape)) ? shape : "";
}

// The shape of which most is known.
function best({ shapes: all }) {
  const worth = ({ ranges }) => {
    const times = (standing) => ranges.filter((one) => one.standing === standing).length;
    return 1e6 * times("confirmed") + 1e3 * times("withdrawn") + times("predicted");
  };
  return all.reduce((most, one) => (worth(one) >= worth(most) ? one : most), all[0]);
}

function shapes({ go }, found, shape) {
  const all = new Map(found.collectives.flatMap((c) => c.shapes.map((one) => [key(one), one])));
  const sorted = [...all.values()].sort((a, b) => a.ppn - b.ppn || a.nodes - b.nodes);
  const own = sorted.length > 1 ? [["", "for each the one most is known of"]] : [];
  const pairs = [...own, ...sorted.map((one) => [key(one), `${one.nodes} × ${one.ppn}`])];
  const onchange = (event) => {
    const { nodes, ppn } = all.get(event.target.value) ?? { nodes: "", ppn: "" };
    go({ nodes: String(nodes), ppn: String(ppn) });
  };
  const select = el("select", { name: "shape", onchange }, options(pairs, shape));
  return field("Nodes × processes per node", select);
}

function legend(changed) {
  const used = new Set(changed.flatMap(([, of]) => of.ranges.map((one) => one.standing)));
  const entries = Object.entries(STANDINGS).filter(([standing]) => used.has(standing));
  return el(
    "ul",
    { class: "legend" },
    entries.map(([standing, [letter, text]]) =>
      el("li", {}, el("span", { class: `key f s-${standing}` }, letter), ` ${text}`),
    ),
  );
}

function card({ state }, collective, of) {
  const picture = el("div", { class: "picture" });
  fitted(picture, (width) => plot(collective, of, width));
  const link = href({ ...state, view: "map", collective: collective.name, at: "" });
  return el(
    "section",
    { class: "gain" },
    el("h3", {}, el("a", { href: link }, collective.mpi_name), el("small", {}, ` ${of.nodes} × ${of.ppn}`)),
    picture,
    el("details", {}, el("summary", {}, "Each range"), rangeTable(collective, of)),
  );
}

function sizes(collective, one) {
  const bytes = collective.msize_bytes;
  return range(bytes[one.first], bytes[one.last]);
}

function interval(one) {
  if (one.gain === null) return "–";
  if (one.upper !== null) return `${factor(one.lower)} to ${factor(one.upper)}`;
  return one.lower === null ? "no bound" : `at least ${factor(one.lower)}`;
}

function rangeTable(collective, of) {
  const head = ["message", "standing", "algorithm", "gain", "interval", "why"];
  const rows = of.ranges.map((one) => [
    sizes(collective, one),
    one.standing,
    one.name,
    factor(one.gain),
    interval(one),
    one.reason,
  ]);
  return table(`${collective.mpi_name} on ${of.nodes} × ${of.ppn}`, head, rows, { words: [2, 5] });
}

function told(collective, one) {
  const gain = one.gain === null ? "" : `, gain ${factor(one.gain)}, ${interval(one)}`;
  return `${sizes(collective, one)}: ${one.standing}, ${one.name}${gain} (${one.reason})`;
}

// Gain upwards and message size to the right, both logarithmic; below it how sure each range is.
function plot(collective, of, width) {
  const bottom = TOP + HEIGHT;
  const bytes = collective.msize_bytes.map((size) => Math.log2(Math.max(size, 0.5)));
  const [first, last] = [bytes[0], bytes.at(-1)];
  const span = last - first || 1;
  const step = (width - LEFT - RIGHT) / (bytes.length || 1);
  const place = (i) => LEFT + step / 2 + ((bytes[i] - first) / span) * (width - LEFT - RIGHT - step);
  const edge = (i) => {
    if (i === 0) return LEFT;
    return i === bytes.length ? width - RIGHT : (place(i - 1) + place(i)) / 2;
  };
  const [low, high] = ends(of.ranges);
  const pad = (high - low) * 0.08;
  const y = (gain) => {
    const inside = Math.min(Math.max(Math.log(gain), low - pad), high + pad);
    return bottom - ((inside - low + pad) / (high - low + 2 * pad)) * HEIGHT;
  };
  const words = of.ranges.filter((one) => one.standing !== "kept").map((o) => told(collective, o));
  return svg(
    "svg",
    {
      class: "plot",
      viewBox: `0 0 ${width} ${bottom + STRIP + AXIS}`,
      width,
      height: bottom + STRIP + AXIS,
      role: "img",
      "aria-label": `Gain over the default by message size. ${words.join(". ")}`,
    },
    grid(y, low - pad, high + pad, width),
    of.ranges.map((one) =>
      svg(
        "g",
        { class: `s-${one.standing}` },
        svg("title", {}, told(collective, one)),
        strip(one, edge, bottom),
        drawn(one, { place, edge, y }),
      ),
    ),
    sizeTicks(collective.msize_bytes, place).map((i) =>
      svg(
        "text",
        { class: "tick", x: place(i), y: bottom + STRIP + 14 },
        shortBytes(collective.msize_bytes[i]),
      ),
    ),
  );
}

// The ends of the scale, as logarithms; an interval that says nothing is cut off at half or twice
// of all gains.
function ends(ranges) {
  const gains = ranges.flatMap((one) => [one.gain, ...one.gains].filter((value) => value > 0));
  const others = ranges.flatMap((one) => [one.lower, one.upper, ...one.bounds]);
  const [low, high] = [Math.min(0.92, ...gains), Math.max(1.15, ...gains)];
  const near = others.filter((value) => value > 0).map((value) => Math.min(Math.max(value, low / 2), high * 2));
  return [Math.min(low, ...near), Math.max(high, ...near)].map(Math.log);
}

function grid(y, low, high, width) {
  const kept = [1];
  for (const at of TICKS) {
    const isInside = Math.log(at) > low && Math.log(at) < high;
    if (isInside && kept.every((other) => Math.abs(y(at) - y(other)) > 18)) kept.push(at);
  }
  return kept.map((at) => [
    svg("line", {
      class: at === 1 ? "baseline" : "grid",
      x1: LEFT,
      x2: width - RIGHT,
      y1: y(at),
      y2: y(at),
    }),
    svg("text", { class: "tick gain-tick", x: LEFT - 5, y: y(at) + 4 }, `${at}×`),
  ]);
}

function sizeTicks(bytes, place) {
  const kept = [];
  bytes.forEach((_, i) => {
    if (!kept.length || place(i) - place(kept.at(-1)) > 50) kept.push(i);
  });
  return kept;
}

function strip(one, edge, bottom) {
  const [from, to] = [edge(one.first), edge(one.last + 1)];
  const [letter] = STANDINGS[one.standing];
  return [
    svg("rect", { class: "strip", x: from, y: bottom + 2, width: to - from, height: STRIP - 4 }),
    svg("text", { class: "letter", x: (from + to) / 2, y: bottom + STRIP - 5 }, letter),
  ];
}

function drawn(one, { place, edge, y }) {
  if (one.gain === null) return null;
  if (one.gains.length) return predicted(one, place, y);
  const [from, to] = [edge(one.first) + 1, edge(one.last + 1) - 1];
  const isKnown = one.lower !== null && one.upper !== null;
  const box = isKnown
    ? { x: from, width: Math.max(to - from, 2), y: y(one.upper), height: y(one.lower) - y(one.upper) }
    : null;
  const [middle, at] = [(from + to) / 2, y(one.gain)];
  return [
    box && svg("rect", { class: "band", ...box }),
    svg("line", { class: "level", x1: from, x2: to, y1: at, y2: at }),
    one.standing === "withdrawn"
      ? svg("path", { class: "mark", d: `M${middle - 4} ${at - 4}l8 8m0-8l-8 8` })
      : svg("path", { class: "mark", d: `M${middle} ${at - 5}l5 5-5 5-5-5z` }),
  ];
}

function predicted(one, place, y) {
  const points = one.gains.map((gain, i) => [place(one.first + i), y(gain), one.bounds[i]]);
  return [
    svg("polyline", { class: "level", points: points.map(([x, at]) => `${x},${at}`).join(" ") }),
    points.map(([x, at, bound]) => [
      bound === null ? null : svg("line", { class: "bound", x1: x, x2: x, y1: at, y2: y(bound) }),
      svg("circle", { class: "mark", cx: x, cy: at, r: 3.5 }),
    ]),
  ];
}

// The same in a sentence, as a part of another view.
export function gainsLine(found) {
  const link = el("a", { href: href({ view: "gains", slot: found.slot }) }, "Gains by message size");
  return [el("p", {}, found.sentence), el("p", {}, link)];
}
