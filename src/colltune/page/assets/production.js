// What jobs in production have proved: node-hours saved, decisions refuted, and how roll-outs go.

import { get } from "./api.js";
import { el, fitted, notice, svg, table } from "./dom.js";
import { href } from "./state.js";
import { age, count, factor, percent, range, shortId, since, stamp } from "./words.js";

const [ROW, TOP, AXIS] = [26, 6, 34];
const TICKS = [0.25, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 10];
const ARMS = { tuned: "tuned", candidate: "candidate", control: "control: the default" };
const HOW =
  "A share of the jobs keeps the library's default, by a hash of the job's id. Each gain compares" +
  " jobs of the same program and shape with these; the unit is the job. Intervals hold at every" +
  " look, so that looking often raises no false alarm.";

const p = (...content) => el("p", {}, content);
const soft = (...content) => el("p", { class: "soft small" }, content);
const code = (text) => el("code", {}, text);
const part = (title, ...content) => el("section", {}, el("h2", {}, title), content);

function hours(value) {
  if (Math.abs(value) < 10) return String(Number(value.toPrecision(2)));
  return value.toFixed(0).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

// "412 node-hours (380 to 450)", negative where jobs were slower.
function saved(one) {
  return [
    el("strong", { class: "figure" }, hours(one.node_hours)),
    ` node-hours (${hours(one.lower)} to ${hours(one.upper)})`,
  ];
}

function off(found) {
  const line = el("pre", {}, "[production]\nrecord = true");
  return [
    notice("info", "Jobs in production are not recorded here, so that nothing is known of them."),
    p("One line in the site file switches it on: "),
    line,
    p("Then: ", code(found.switch_on), "."),
  ];
}

export async function productionView(app, _slot, signal) {
  const { data: found } = await get("v1/view/production", {}, signal);
  if (!found.recording) return [part("Proven by production jobs", off(found))];
  if (!found.saved) {
    const told = "Nothing is judged yet: no job reported so far.";
    return [
      part("Proven by production jobs", notice("info", told), soft(HOW)),
      part("Roll-out", rollOuts(found, app.now)),
      notJudged(found),
    ];
  }
  return [
    el("h2", {}, "Proven by production jobs"),
    headline(found, app.now),
    found.drifts.map((one) => notice("warn", `${one.slot}: ${one.text}`)),
    part("Gain by collective", gains(found)),
    part("Roll-out", rollOuts(found, app.now)),
    part("Refuted decisions", refuted(found, app.now)),
    part("Proven decisions", proven(found)),
    part("Arms and their jobs", arms(found)),
    notJudged(found),
  ];
}

// What the front says of all this in one card.
export async function productionCard(signal) {
  const { data: found } = await get("v1/view/production", {}, signal);
  if (!found.recording) return off(found);
  const all = el("a", { href: href({ view: "production" }) }, "All of production");
  if (!found.saved) return [p("Nothing is judged yet."), p(all)];
  return [
    p(saved(found.saved), " saved since the beginning."),
    p(verdicts(found)),
    found.drifts.map((one) => notice("warn", `${one.slot}: ${one.text}`)),
    p(all),
  ];
}

function verdicts(found) {
  const told = `${count(found.proven_count, "decision")} proven, ${found.refuted_count} refuted`;
  const rest = `${found.open_count} not known yet, ${found.not_compared_count} not compared`;
  return `${told}, ${rest}.`;
}

function headline(found, now) {
  const [latest] = found.months;
  const report = (one) => `v1/production/report?month=${encodeURIComponent(one.period)}`;
  const month = latest ? p(saved(latest), ` saved in ${latest.period}. `) : null;
  const rows = found.months.map((one) => [
    one.period,
    hours(one.node_hours),
    `${hours(one.lower)} to ${hours(one.upper)}`,
    el("a", { href: report(one) }, "report"),
  ]);
  const months = table("Node-hours saved by month", ["month", "node-hours", "interval", "as a file"], rows);
  return el(
    "section",
    { class: `health ${found.refuted.some((one) => !one.withdrawn_utc) ? "bad" : "good"}` },
    month,
    p(saved(found.saved), " saved since the beginning."),
    p(`${verdicts(found)} Judged `, since(found.judged_utc, now), "."),
    rows.length ? el("details", {}, el("summary", {}, "By month"), months) : null,
    soft(HOW),
  );
}

function gains({ collectives }) {
  if (!collectives.length) return p("No tuned decision was compared with the default yet.");
  const picture = el("div", { class: "picture" });
  fitted(picture, (width) => intervals(collectives, width));
  const head = ["collective", "gain", "95 % interval", "decisions", "node-hours saved"];
  const rows = collectives.map((one) => [
    one.mpi_name,
    factor(one.gain),
    `${factor(one.lower)} to ${factor(one.upper)}`,
    one.decisions,
    hours(one.saved_node_hours),
  ]);
  return [picture, table("Gain by collective", head, rows, { cards: true })];
}

// One row for each collective: gain and interval on a logarithmic axis, 1× is the default.
function intervals(rows, width) {
  const name = (one) => one.mpi_name;
  const left = Math.min(Math.max(...rows.map((one) => name(one).length)) * 6.6 + 16, width * 0.45);
  const ends = rows.flatMap((one) => [one.lower, one.upper]);
  const [from, to] = [Math.min(0.95, ...ends), Math.max(1.05, ...ends)].map(Math.log);
  const pad = (to - from) * 0.05;
  const scale = (width - left - 16) / (to - from + 2 * pad);
  const x = (gain) => left + (Math.log(gain) - from + pad) * scale;
  const bottom = TOP + rows.length * ROW;
  const room = Math.floor((left - 12) / 6.6);
  const text = (one) => name(one).slice(0, room);
  return svg(
    "svg",
    {
      class: "plot",
      viewBox: `0 0 ${width} ${bottom + AXIS}`,
      width,
      height: bottom + AXIS,
      role: "img",
      "aria-label": "Gains with their intervals, logarithmic; the table below has the same numbers",
    },
    ticks(x, from - pad, to + pad).map((at) => [
      svg("line", {
        class: at === 1 ? "baseline" : "grid",
        x1: x(at),
        x2: x(at),
        y1: TOP,
        y2: bottom,
      }),
      svg("text", { class: "tick", x: x(at), y: bottom + 16 }, `${at}×`),
    ]),
    svg("text", { class: "tick", x: (left + width) / 2, y: bottom + 30 }, "gain over the default"),
    rows.map((one, i) => bar(one, TOP + (i + 0.5) * ROW, { x, left, text: text(one) })),
  );
}

// The ticks in a span that leave each other room; 1× is always one of them.
function ticks(x, from, to) {
  const inside = TICKS.filter((at) => at === 1 || (Math.log(at) > from && Math.log(at) < to));
  const kept = [1];
  for (const at of inside) {
    if (kept.every((other) => Math.abs(x(at) - x(other)) > 40)) kept.push(at);
  }
  return kept;
}

function bar(one, y, { x, left, text }) {
  const kind = one.lower > 1 ? "chosen" : one.upper < 1 ? "slower" : "other";
  const told = `${one.mpi_name}: ${factor(one.gain)}, ${factor(one.lower)} to ${factor(one.upper)}`;
  return svg(
    "g",
    { class: kind },
    svg("title", {}, told),
    svg("text", { class: "name", x: left - 8, y: y + 4 }, text),
    svg("line", { class: "interval", x1: x(one.lower), x2: x(one.upper), y1: y, y2: y }),
    [one.lower, one.upper].map((end) =>
      svg("line", { class: "interval", x1: x(end), x2: x(end), y1: y - 4, y2: y + 4 }),
    ),
    svg("circle", { class: "mark", cx: x(one.gain), cy: y, r: 5 }),
  );
}

const shareWord = (share) => (share >= 1 ? "all" : percent(share));

function rollOuts({ roll_outs: found, stopped }, now) {
  const none = found.length ? [] : [p("No bundle is being rolled out.")];
  const going = found.map((one) => rollout(one, now));
  return [...none, ...going, ...stopped.map((one) => ended(one, now))];
}

function ended(one, now) {
  const trial = link(one.slot, one.bundle_id);
  const how = [" was stopped ", since(one.at_utc, now), ` by ${one.by}: ${one.note}`];
  return p(`${one.slot}: the trial of `, trial, how);
}

// The steps of a candidate's roll-out, and how far it came.
function rollout(one, now) {
  const at = one.shares.findIndex((share) => share >= one.share);
  const steps = one.shares.map((share, i) => {
    const word = i < at ? "done" : i === at ? "now" : "next";
    const jobs = i === at ? ` ${one.jobs} of ${count(one.jobs_wanted, "job")}` : ` ${word}`;
    return el(
      "li",
      { class: word, "aria-current": i === at ? "step" : null },
      el("strong", {}, shareWord(share)),
      el("small", {}, jobs),
    );
  });
  const ends = `${factor(one.lower)} to ${factor(one.upper)}`;
  const bounds =
    one.lower === null
      ? `Nothing is known of its speed yet: ${one.why}.`
      : `Its calls take ${ends} the time of those with the bundle in force: ${one.why}.`;
  const state = one.harmed ? notice("bad", "It does harm: the roll-out is stopped.") : null;
  return [
    p(
      `${one.slot}: `,
      link(one.slot, one.bundle_id),
      ` has ${shareWord(one.share)} of the jobs, `,
      since(one.since_utc, now),
      ` by ${one.by}.`,
    ),
    el("ol", { class: "steps" }, steps),
    p(bounds),
    state,
  ];
}

function link(slot, bundle) {
  const target = { href: href({ view: "map", slot, bundle }), title: `Look at ${bundle}` };
  return el("a", target, code(shortId(bundle)));
}

function where(one) {
  const [first, last] = [one.nodes_first, one.nodes_last];
  return `${first === last ? first : `${first}–${last}`} × ${one.ppn}`;
}

function decision(one) {
  return [
    one.mpi_name,
    one.slot,
    where(one),
    range(one.first_bytes, one.last_bytes),
    one.configuration,
    factor(one.gain),
    `${factor(one.lower)} to ${factor(one.upper)}`,
    `${one.jobs} : ${one.control_jobs}`,
  ];
}

const HEAD = [
  "collective",
  "MPI",
  "nodes × per node",
  "message",
  "used",
  "gain",
  "interval",
  "jobs : control",
];

function refuted(found, now) {
  if (!found.refuted.length) return p("None: no decision was shown to be slower than the default.");
  const look = { words: [4], cards: true };
  const rows = found.refuted.map((one) => {
    const took = one.withdrawn_utc
      ? [stamp(one.withdrawn_utc), el("small", {}, age(one.withdrawn_utc, now))]
      : el("strong", {}, "not yet");
    const row = [...decision(one), took, one.revision ? link(one.slot, one.revision) : "–"];
    return Object.assign(row, { below: one.note ? soft(one.note) : null });
  });
  return [
    table("Refuted decisions", [...HEAD, "withdrawn", "revision"], rows, look),
    soft(
      "From its revision on each is the library's default again, in this range only;",
      " colltune confirm measures it first.",
    ),
  ];
}

function proven(found) {
  if (!found.proven.length) return p("None yet: more jobs are needed.");
  const rows = found.proven.map(decision);
  return table("Proven decisions", HEAD, rows, { words: [4], cards: true });
}

function arms(found) {
  if (!found.arms.length) return null;
  const head = ["MPI", "arm", "bundle", "asked", "reported", "silent", "own settings"];
  const rows = found.arms.map((one) => [
    one.slot,
    ARMS[one.arm] ?? one.arm,
    one.bundle_id ? link(one.slot, one.bundle_id) : "–",
    one.asked,
    one.reported,
    one.silent,
    one.own,
  ]);
  return [
    table("Arms and their jobs", head, rows, { cards: true }),
    soft(
      `Control: ${percent(found.control)} of the jobs. Asked: jobs that were given the arm in 30`,
      " days; the rest is since the beginning. Silent: reported no run, since they ended early, ran",
      " no MPI, or opted out. Own settings: the user's settings decided; they are not compared.",
    ),
  ];
}

function notJudged(found) {
  const rows = [...found.set_aside, ...found.left_out].map((one) => [one.reason, one.times]);
  if (!rows.length) return null;
  return part("Not judged", table("Why something was not judged", ["why", "times"], rows));
}
