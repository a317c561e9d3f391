// The front: is the service healthy, what did jobs get, what is that worth, and what comes next?

import { get } from "./api.js";
import { el, notice, table } from "./dom.js";
import { gainsLine } from "./gains.js";
import { ACTIONS, bundleLink, changeWords, previousOf } from "./history.js";
import { productionCard } from "./production.js";
import { href } from "./state.js";
import { age, count, duration, factor, percent, range, shortId, since } from "./words.js";

const REQUESTS =
  "Counted are requests for files, as Slurm's hooks make one per job and MPI release. Tuned: on" +
  " the whole job at least one collective uses something else than the default. Which MPI a job" +
  " then loads, the service does not learn.";
const MENDS = {
  "no bundle fits its MPI release": "Measure that release, fit a bundle and promote it.",
  "its shape is outside what was measured": "The next campaign measures what jobs ask for.",
  "no gain was sure enough": "More measurements, or colltune confirm, make it surer.",
  "it has one process": "There is nothing to tune.",
  "the service was not ready, or too busy": "Start more workers: colltune serve --workers 4.",
};
const OUTCOMES = {
  promoted: "promoted a new bundle",
  kept: "kept the bundle that was in force",
  shadow: "compared, promoted nothing",
};
const [EVENTS, SHAPES] = [3, 6];

const p = (...content) => el("p", {}, content);
const soft = (...content) => el("p", { class: "soft small" }, content);
const list = (items) => el("ul", {}, items.map((item) => el("li", {}, item)));
const code = (text) => el("code", {}, text);
const figure = (text) => el("strong", { class: "figure" }, text);
const nothing = (...text) => p(el("strong", {}, "Nothing yet. "), text);
const folded = (title, ...content) => el("details", {}, el("summary", {}, title), content);
const card = (title, ...content) => el("section", { class: "card" }, el("h2", {}, title), content);

export async function frontView(app, slot, signal) {
  const { data: front } = await get("v1/view/front", {}, signal);
  const mine = front.slots.find((one) => one.slot === slot.slot);
  const waiting = ["Computing…", "Comparing…", "Reading…"].map((text) => el("div", {}, soft(text)));
  const [predicted, changed, proved] = waiting;
  later(app, predicted, async () => gainsLine(await app.ask("v1/view/gains", {}, slot, signal)));
  later(app, changed, () => lastChange(app, slot, signal));
  later(app, proved, () => productionCard(signal));
  const cards = [
    card("Jobs today", jobs(front.requests, app.now)),
    card(
      `Gain with ${slot.library_title} ${slot.release}`,
      el("h3", {}, "Confirmed: measured beside the default"),
      confirmedGain(mine, front.requests),
      el("h3", {}, "All of it"),
      predicted,
      heldOut(mine),
    ),
    card("Proven by production jobs", proved),
    card("What the latest bundle changed", changed),
    card("Drift of the machine", drift(mine?.drift)),
    card("Measured next", next(mine, front, app.now)),
    card("Who promoted what, and why", promotions(app)),
  ];
  return [health(app, front), el("div", { class: "front" }, cards)];
}

// Fills a box when its answer comes, so that the rest does not wait.
function later(app, box, made) {
  made().then(
    (content) => box.replaceChildren(...[content].flat(3).filter(Boolean)),
    (error) => box.replaceChildren(app.explain(error) ?? ""),
  );
}

// One line on the whole, and one row for each MPI release.
function health({ overview, now }, front) {
  const troubles = [...overview.warnings, ...front.attention];
  const rows = overview.slots.map((one) => {
    const known = front.slots.find((other) => other.slot === one.slot);
    const event = overview.history.find((other) => other.slot === one.slot && other.in_force);
    return [
      `${one.library_title} ${one.release}`,
      code(shortId(one.bundle)),
      since(one.created_utc, now),
      [since(one.since_utc, now), event ? ` by ${event.by}` : ""],
      known?.outcome
        ? [OUTCOMES[known.outcome] ?? known.outcome, el("small", {}, known.reason)]
        : "none yet",
      driftWord(known?.drift),
    ];
  });
  const head = ["MPI", "bundle in force", "fitted", "promoted", "latest retraining", "drift"];
  const retrained = front.retraining_utc
    ? ["retraining ran ", since(front.retraining_utc, now)]
    : "no retraining ran yet";
  const registry = overview.history.length ? "registry" : "bundle's folder";
  const arrived = front.arrived ? `, ${count(front.arrived, "file")} came in since then` : "";
  return el(
    "section",
    { class: `health ${troubles.length ? "bad" : "good"}` },
    el("h2", {}, troubles.length ? "Needs attention" : "Healthy"),
    troubles.length ? list(troubles) : null,
    p(
      `The service answers, started ${age(front.requests.since_utc, now)}; the ${registry} was read `,
      [`${front.registry_read_s.toFixed(0)} s ago; `, retrained, arrived, "."],
    ),
    table("Bundles in force", head, rows, { words: [4], cards: true }),
  );
}

function driftWord(found) {
  if (!found?.shifts.length) return "not judged yet";
  return found.alarm ? el("strong", {}, "alarm") : "within chance";
}

function jobs({ today, days, reasons, releases, shapes, ...more }, now) {
  const all = today.tuned + today.kept;
  const started = `Counted since this service started, ${age(more.since_utc, now)}.`;
  const how = [" To keep counts over restarts: ", code("colltune serve --demand FOLDER"), "."];
  const passing = more.stored ? null : notice("info", started, ...how);
  const by = (what, rows) =>
    table(
      `Requests by ${what}`,
      [what, "tuned", "default", "share tuned"],
      rows.map((row) => [row.what, row.tuned, row.kept, bar(row)]),
    );
  const earlier = days.length ? folded("Days before", by("day", days)) : null;
  if (!all) {
    const hooks = [code("colltune site init"), " sets up Slurm's hooks, which ask for every job."];
    return [nothing("No job asked today. ", hooks), passing, earlier];
  }
  const rare = [
    by("rarer shape", shapes.slice(SHAPES)),
    more.shapes_left_out ? soft(`${count(more.shapes_left_out, "shape")} more.`) : null,
  ];
  return [
    p(
      figure(`${today.tuned} of ${all}`),
      ` requests were tuned (${percent(today.tuned / all)}); ${today.kept} kept the default.`,
      " Since midnight, UTC.",
    ),
    passing,
    reasons.length ? [el("h3", {}, "Why the default"), list(reasons.map(reason))] : null,
    by("MPI", releases),
    by("nodes × per node", shapes.slice(0, SHAPES)),
    shapes.length > SHAPES ? folded("Rarer shapes", rare) : null,
    earlier,
    soft(REQUESTS),
  ];
}

function reason(one) {
  const which = one.releases.length ? ` (${one.releases.join(", ")})` : "";
  const mend = el("small", {}, MENDS[one.reason] ?? "");
  return [`${one.requests}: ${one.reason}${which}. `, mend];
}

function bar({ tuned, kept }) {
  const share = tuned / Math.max(tuned + kept, 1);
  return el("meter", { value: share, "aria-label": `${percent(share)} tuned` });
}

function confirmedGain(mine, requests) {
  const withdrawn = mine?.withdrawn
    ? ` ${count(mine.withdrawn, "more decision")} did not prove faster: the default is kept there.`
    : "";
  if (!mine?.confirmed.length) {
    const how = [code("colltune confirm BUNDLE"), " measures decisions beside the default."];
    return nothing("No decision in force was measured to be faster. ", how, withdrawn);
  }
  const [mean, lower, upper] = mine.mean.map(factor);
  const head = ["collective", "shape", "message", "used", "gain", "95 % interval", "launches"];
  const rows = mine.confirmed.map((one) => [
    one.mpi_name,
    `${one.nodes} × ${one.ppn}`,
    range(one.first_bytes, one.last_bytes),
    one.name,
    factor(one.gain),
    `${factor(one.lower)} to ${factor(one.upper)}`,
    one.launches,
  ]);
  return [
    p(
      figure(mean),
      ` (${lower} to ${upper}) in the geometric mean of ${count(rows.length, "decision")}.`,
      `${withdrawn} ${count(requests.confirmed, "request")} of today ran on these shapes.`,
    ),
    soft("The ends are means of the intervals' ends, which is cautious."),
    folded("Each of them", table("Confirmed decisions", head, rows)),
  ];
}

function heldOut(mine) {
  const found = mine?.held_out;
  if (!found) return null;
  const ends = found.geometric_mean_speedup_interval?.map(factor).join(" to ");
  return p(
    "On measurements that the models had not seen, decisions were ",
    el("strong", {}, factor(found.geometric_mean_speedup)),
    `${ends ? ` (${ends})` : ""} as fast as the default, over ${found.instances} instances of `,
    `${count(found.shapes, "shape")}; ${percent(found.harm_share)} were slower.`,
  );
}

function drift(found) {
  if (!found) {
    const how = "compares new measurements with what the bundle predicts.";
    return nothing(code("colltune site retrain"), ` ${how}`);
  }
  if (!found.shifts.length) {
    return nothing("The latest retraining had no new measurements on shapes that the bundle knows.");
  }
  const rows = found.shifts.map((one) => [
    one.of,
    one.since === "fit" ? "since the fit" : "latest allocations",
    factor(one.ratio),
    one.allocations,
    one.alarm ? el("strong", {}, "alarm") : "within chance",
  ]);
  const head = ["of", "compared", "time, new over old", "allocations", "verdict"];
  const told = found.alarm ? "Runtimes shifted beyond chance." : "No shift beyond chance.";
  return [p(told), table("Drift", head, rows)];
}

function next(mine, front, now) {
  const plan = mine?.campaign;
  if (!plan) {
    const where = code("colltune site retrain --print-unit site");
    return nothing("Retraining plans it from what jobs ask for: see [backfill] of ", where, ".");
  }
  if (plan.problem) return notice("bad", `No campaign could be planned: ${plan.problem}`);
  if (!plan.nodes.length) return p("Nothing is wanted: what jobs ask for is measured.");
  const head = ["collective", "shape", "requests", "sizes outside", "unsure"];
  const rows = plan.wanted.map((one) => [
    one.collective,
    one.shape.replace("x", " × "),
    one.requests,
    one.extrapolated,
    one.abstained,
  ]);
  return [
    p(
      `${plan.collectives.join(", ")} on ${plan.nodes.join(", ")} nodes, ${plan.ppn.join(", ")}`,
      ` per node: about ${duration(plan.expected_s)} of a budget of ${duration(plan.budget_s)}, for`,
      ` ${percent(plan.covered)} of what is wanted. Planned `,
      [since(front.reported_utc, now), "; ", code("colltune submit"), " measures it."],
    ),
    table("Most wanted", head, rows),
  ];
}

async function lastChange(app, slot, signal) {
  const event = app.overview.history.find((one) => one.slot === slot.slot && one.in_force);
  if (!event || !previousOf(event)) return nothing("No bundle was in force before this one.");
  const note = event.note ? ` “${event.note}”` : "";
  return [p(`${event.by}, `, since(event.at_utc, app.now), note), await changeWords(event, signal)];
}

function promotions({ overview, now }) {
  if (!overview.history.length) return nothing("This service has one bundle and no registry.");
  const told = overview.history.slice(0, EVENTS).map((event) => [
    `${event.slot}: ${ACTIONS[event.action] ?? event.action} `,
    bundleLink(event, event.bundle),
    " ",
    since(event.at_utc, now),
    ` by ${event.by}${event.note ? `: “${event.note}”` : ", without a note"}`,
  ]);
  return [list(told), p(el("a", { href: href({ view: "history" }) }, "All of the history"))];
}
