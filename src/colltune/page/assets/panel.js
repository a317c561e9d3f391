// The predicted runtimes of all configurations on one instance: a verdict, a plot, and a table.

import { el, svg, table } from "./dom.js";
import { styleOf } from "./map.js";
import { bytes, factor, time } from "./words.js";

const ROW = 24;
const TOP = 6;
const AXIS = 34;

export function verdict(map, found, jobLink) {
  const chosen = map.configurations[found.chosen];
  const facts = [];
  if (found.considered !== null && found.gain !== null) {
    const whose = found.replaced ? "" : ` by ${map.configurations[found.considered].name}`;
    facts.push(["predicted gain", `${factor(found.gain)}${whose}`]);
    facts.push(["at least (lower bound)", factor(found.gain_bound)]);
    if (found.gain_required !== null)
      facts.push(["the guard asks for more than", factor(found.gain_required)]);
  }
  const fallback = found.configurations.find((one) => one.column === found.default);
  const used = found.configurations.find((one) => one.column === found.chosen);
  if (fallback) facts.push(["default", timed(fallback)]);
  if (used && found.replaced) facts.push(["chosen", timed(used)]);
  return el(
    "div",
    { class: `verdict ${found.replaced ? "replaced" : "default"}` },
    el(
      "p",
      { class: "headline" },
      el("span", { class: `key f ${styleOf(chosen)}`, "aria-hidden": "true" }, chosen.code),
      " ",
      found.replaced ? `Use ${chosen.name}` : "Default kept",
    ),
    el("p", {}, sentence(found.reason)),
    el("p", { class: "soft" }, `This decision is ${found.status}.`),
    facts.length
      ? el(
          "dl",
          {},
          facts.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
        )
      : null,
    found.measured
      ? null
      : el(
          "p",
          { class: "soft" },
          found.extrapolated
            ? "Outside the measured range: predictions reach there, but less surely."
            : "Not measured itself: predicted from measurements around it.",
        ),
    el("p", {}, el("a", { href: jobLink }, `The file for a job of ${found.nodes} × ${found.ppn}`)),
  );
}

// The same in one sentence, for those who listen.
export function spoken(map, found) {
  const what = found.replaced ? `use ${map.configurations[found.chosen].name}` : "default kept";
  return `${title(map, found)}: ${what}. ${sentence(found.reason)}`;
}

function timed(one) {
  return [
    el("strong", {}, time(one.time_s)),
    el("small", {}, ` ${time(one.lower_s)} to ${time(one.upper_s)}`),
  ];
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

// Configurations as rows, runtime on a logarithmic axis: dot and 90 % interval.
export function plot(map, found, width) {
  const rows = found.configurations;
  const name = (one) => `${map.configurations[one.column].code} ${one.name}`;
  const left = Math.min(Math.max(...rows.map((one) => name(one).length)) * 6.6 + 16, width * 0.42);
  const [low, high] = [
    Math.min(...rows.map((one) => one.lower_s)),
    Math.max(...rows.map((one) => one.upper_s)),
  ];
  const [from, to] = [Math.log(low) - 0.08, Math.log(high) + 0.08];
  const x = (seconds) => left + ((Math.log(seconds) - from) / (to - from)) * (width - left - 12);
  const height = TOP + rows.length * ROW + AXIS;
  const bottom = TOP + rows.length * ROW;
  const fallback = rows.find((one) => one.column === found.default);
  const room = Math.floor((left - 12) / 6.6);
  return svg(
    "svg",
    {
      class: "plot",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label":
        "Predicted runtimes with their 90 % intervals, logarithmic; the table below has the same numbers",
    },
    ticks(Math.exp(from), Math.exp(to), width - left).map((at) => [
      svg("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: bottom }),
      svg("text", { class: "tick", x: x(at), y: bottom + 16 }, time(at)),
    ]),
    svg(
      "text",
      { class: "tick soft", x: left + (width - left) / 2, y: bottom + 30 },
      "predicted runtime, logarithmic",
    ),
    fallback
      ? svg("line", {
          class: "baseline",
          x1: x(fallback.time_s),
          x2: x(fallback.time_s),
          y1: TOP,
          y2: bottom,
        })
      : null,
    rows.map((one, i) =>
      row(one, TOP + (i + 0.5) * ROW, { found, x, left, text: cut(name(one), room) }),
    ),
  );
}

function cut(text, room) {
  return text.length <= room ? text : `${text.slice(0, Math.max(room - 1, 1))}…`;
}

function row(one, y, { found, x, left, text }) {
  const role =
    one.column === found.chosen ? "chosen" : one.column === found.default ? "isdefault" : "other";
  const kind = `${role}${one.excluded ? " excluded" : ""}`;
  const at = x(one.time_s);
  const mark =
    role === "isdefault"
      ? svg("path", { class: "mark", d: `M${at} ${y - 6}l6 6-6 6-6-6z` })
      : svg("circle", { class: "mark", cx: at, cy: y, r: role === "chosen" ? 6.5 : 4.5 });
  return svg(
    "g",
    { class: kind },
    svg(
      "title",
      {},
      `${one.name}: ${time(one.time_s)}, ${time(one.lower_s)} to ${time(one.upper_s)}${one.excluded ? `; ${one.excluded}` : ""}`,
    ),
    svg("text", { class: "name", x: left - 8, y: y + 4 }, text),
    svg("line", { class: "interval", x1: x(one.lower_s), x2: x(one.upper_s), y1: y, y2: y }),
    [one.lower_s, one.upper_s].map((end) =>
      svg("line", { class: "interval", x1: x(end), x2: x(end), y1: y - 4, y2: y + 4 }),
    ),
    mark,
  );
}

function ticks(low, high, room) {
  const steps = [[1], [1, 3], [1, 2, 5]];
  const most = Math.max(2, Math.floor(room / 70));
  const all = (digits) => {
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1) {
      for (const digit of digits) found.push(digit * 10 ** e);
    }
    return found.filter((at) => at >= low && at <= high);
  };
  const fitting = steps.map(all).filter((found) => found.length <= most);
  const best =
    fitting.at(-1) ?? all([1]).filter((_, i, found) => i % Math.ceil(found.length / most) === 0);
  return best.length ? best : [Math.sqrt(low * high)];
}

export function predictionTable(map, found) {
  const fallback = found.configurations.find((one) => one.column === found.default);
  const head = ["configuration", "predicted", "90 % interval", "against default", "remark"];
  const rows = found.configurations.map((one) => {
    const shown = map.configurations[one.column];
    const isChosen = one.column === found.chosen;
    const remarks = [
      isChosen ? "chosen" : "",
      one.column === found.default && !isChosen ? "default" : "",
      one.excluded,
    ];
    const row = [
      [el("span", { class: `key f ${styleOf(shown)}` }, shown.code), " ", one.name],
      time(one.time_s),
      `${time(one.lower_s)} to ${time(one.upper_s)}`,
      fallback ? factor(fallback.time_s / one.time_s) : "–",
      remarks.filter(Boolean).join("; "),
    ];
    return Object.assign(row, { kind: isChosen ? "chosen" : one.excluded ? "excluded" : null });
  });
  return table("Predicted runtimes, the fastest first", head, rows, { words: [4] });
}

export function title(map, found) {
  const block = map.block_per_rank ? " per process" : "";
  return `${map.mpi_name} on ${found.nodes} × ${found.ppn}, ${bytes(found.msize_bytes)}${block}`;
}
