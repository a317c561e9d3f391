// The front: is the service healthy, what did jobs get, what is that worth, and what comes next?

import { get } from "./api.js";
import { el, notice, table } from "./dom.js";
import { ACTIONS, bundleLink, changeWords, previousOf } from "./history.js";
import { href } from "./state.js";
import { age, count, duration, factor, percent, range, since } from "./words.js";

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

export async function frontView(app, slot, signal) {
  const { data: front } = await get("v1/view/front", {}, signal);
  const mine = front.slots.find((one) => one.slot === slot.slot);
  const predicted = el("div", {}, el("p", { class: "soft" }, "Computing…"));
  const changed = el("div", {}, el("p", { class: "soft" }, "Comparing…"));
  later(app, predicted, async () => predictedGain(await app.ask("v1/view/gain", {}, slot, signal)));
  later(app, changed, () => lastChange(app, slot, signal));
  return [
    health(app, front),
    el(
      "div",
      { class: "front" },
      jobs(front.requests, app.now),
      card(
        `Gain with ${slot.library_title} ${slot.release}`,
        el("h3", {}, "Confirmed: measured beside the default"),
        confirmedGain(mine, front.requests),
        el("h3", {}, "Predicted only"),
        predicted,
        heldOut(mine),
      ),
      card("What the latest bundle changed", changed),
      card("Drift of the machine", drift(mine?.drift)),
      card("Measured next", next(mine, front, app.now)),
      card("Who promoted what, and why", promotions(app)),
    ),
  ];
}

function card(title, ...content) {
  return el("section", { class: "card" }, el("h2", {}, title), content);
}

// Fills a box when its answer comes, so that the rest does not wait.
function later(app, box, made) {
  made().then(
    (content) => box.replaceChildren(...[content].flat(3).filter(Boolean)),
    (error) => box.replaceChildren(app.explain(error) ?? ""),
  );
}

function nothing(text, ...how) {
  return el("p", {}, el("strong", {}, "Nothing yet. "), text, how);
}

function folded(title, ...content) {
  return el("details", {}, el("summary", {}, title), content);
}

function code(text) {
  return el("code", {}, text);
}

function driftWord(found) {
  if (!found?.shifts.length) return "not judged yet";
  return found.alarm ? el("strong", {}, "alarm") : "within chance";
}

// One line on the whole, and one row for each MPI release.
function health({ overview, now }, front) {
  const troubles = [...overview.warnings, ...front.attention];
  const good = troubles.length === 0;
  const retrained = front.retraining_utc
    ? ["retraining ran ", since(front.retraining_utc, now)]
    : "no retraining ran yet";
  const arrived = front.arrived ? [", ", count(front.arrived, "file"), " came in since then"] : "";
  const rows = overview.slots.map((one) => {
    const known = front.slots.find((other) => other.slot === one.slot);
    const event = overview.history.find((other) => other.slot === one.slot && other.in_force);
    return [
      `${one.library_title} ${one.release}`,
      code(one.bundle.slice(0, 12)),
      since(one.created_utc, now),
      [since(one.since_utc, now), event ? ` by ${event.by}` : ""],
      known?.outcome ? [OUTCOMES[known.outcome] ?? known.outcome, el("small", {}, known.reason)] : "none yet",
      driftWord(known?.drift),
    ];
  });
  const head = ["MPI", "bundle in force", "fitted", "promoted", "latest retraining", "drift"];
  return el(
    "section",
    { class: `health ${good ? "good" : "bad"}` },
    el("h2", {}, good ? "Healthy" : "Needs attention"),
    troubles.length ? el("ul", {}, troubles.map((text) => el("li", {}, text))) : null,
    el(
      "p",
      {},
      `The service answers, started ${age(front.requests.since_utc, now)}; the registry was read `,
      `${front.registry_read_s.toFixed(0)} s ago; `,
      retrained,
      arrived,
      ".",
    ),
    table("Bundles in force", head, rows, { words: [4], cards: true }),
  );
}

function jobs(requests, now) {
  const { today, reasons, releases, shapes } = requests;
  const all = today.tuned + today.kept;
  const kept = requests.stored
    ? null
    : notice(
        "info",
        `Counted since this service started, ${age(requests.since_utc, now)}. To keep counts over`,
        " restarts, start it with ",
        code("colltune serve --demand FOLDER"),
        ".",
      );
  const days = requests.days.map((day) => [day.what, day.tuned, day.kept, bar(day)]);
  if (!all && !days.length) {
    const how = [code("colltune site init"), " sets up Slurm's hooks, which ask for every job."];
    return card("Jobs today", nothing("No job asked today. ", how), kept);
  }
  const rows = (found) => found.map((row) => [row.what, row.tuned, row.kept, bar(row)]);
  const head = (what) => [what, "tuned", "default", ""];
  return card(
    "Jobs today",
    el(
      "p",
      {},
      el("strong", { class: "figure" }, `${today.tuned} of ${all}`),
      ` requests were tuned${all ? ` (${percent(today.tuned / all)})` : ""}; `,
      `${today.kept} kept the default. Since midnight, UTC.`,
    ),
    kept,
    reasons.length
      ? [
          el("h3", {}, "Why the default"),
          el("ul", {}, reasons.map(reason)),
        ]
      : null,
    table("Requests by MPI", head("MPI"), rows(releases)),
    table("Requests by shape", head("nodes × per node"), rows(shapes.slice(0, SHAPES))),
    shapes.length > SHAPES
      ? folded(
          "Rarer shapes",
          table("Requests by rarer shape", head("nodes × per node"), rows(shapes.slice(SHAPES))),
          requests.shapes_left_out ? `${count(requests.shapes_left_out, "shape")} more.` : null,
        )
      : null,
    days.length ? folded("Days before", table("Requests by day", head("day"), days)) : null,
    el("p", { class: "soft small" }, REQUESTS),
  );
}

function reason(one) {
  const which = one.releases.length ? ` (${one.releases.join(", ")})` : "";
  const mend = MENDS[one.reason] ?? "";
  return el("li", {}, `${one.requests}: ${one.reason}${which}. `, el("small", {}, mend));
}

function bar({ tuned, kept }) {
  const share = tuned / Math.max(tuned + kept, 1);
  return el("meter", { value: share, "aria-label": `${percent(share)} tuned` });
}

function confirmedGain(mine, requests) {
  if (!mine?.confirmed.length) {
    const taken = mine?.withdrawn
      ? ` ${count(mine.withdrawn, "decision")} did not prove faster, and the default is kept there.`
      : "";
    const how = [code("colltune confirm BUNDLE"), " measures decisions beside the default.", taken];
    return nothing("No decision in force was measured beside the default. ", how);
  }
  const [mean, lower, upper] = mine.mean;
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
    el(
      "p",
      {},
      el("strong", { class: "figure" }, factor(mean)),
      ` (${factor(lower)} to ${factor(upper)}) in the geometric mean of `,
      `${count(rows.length, "decision")}; ${mine.withdrawn} more did not prove faster and were`,
      ` withdrawn. ${count(requests.confirmed, "request")} of today ran on these shapes.`,
    ),
    el("p", { class: "soft small" }, "The ends are means of the intervals' ends, which is cautious."),
    folded("Each of them", table("Confirmed decisions", head, rows)),
  ];
}

function predictedGain(found) {
  if (!found) return [];
  const rows = found.collectives
    .filter((one) => one.fields)
    .map((one) => [one.mpi_name, `${one.fields} of ${one.of}`, factor(one.gain), factor(one.bound)]);
  if (!rows.length) return nothing("No decision rests on a prediction alone.");
  const head = ["collective", "measured instances where used", "mean gain", "at least"];
  return [
    table("Predicted gains", head, rows),
    el(
      "p",
      { class: "soft small" },
      "Models predict these gains where they replace the default, and nothing has proved them.",
    ),
  ];
}

function heldOut(mine) {
  if (!mine?.held_out) return null;
  const found = mine.held_out;
  const ends = found.geometric_mean_speedup_interval?.map(factor).join(" to ");
  return el(
    "p",
    {},
    "On measurements that the models had not seen, decisions were ",
    el("strong", {}, factor(found.geometric_mean_speedup)),
    `${ends ? ` (${ends})` : ""} as fast as the default, over ${found.instances} instances of `,
    `${count(found.shapes, "shape")}; ${percent(found.harm_share)} were slower.`,
  );
}

function drift(found) {
  if (!found?.shifts.length) {
    const text = "Nightly retraining compares new measurements with what the bundle predicts: ";
    return found
      ? nothing("The latest retraining had no new measurements on shapes that the bundle knows.")
      : nothing(text, code("colltune site retrain"));
  }
  const rows = found.shifts.map((one) => [
    one.of,
    one.since === "fit" ? "since the fit" : "latest allocations",
    factor(one.ratio),
    one.allocations,
    one.alarm ? el("strong", {}, "alarm") : "within chance",
  ]);
  const head = ["of", "compared", "time, new over old", "allocations", ""];
  return [
    el("p", {}, found.alarm ? "Runtimes shifted beyond chance." : "No shift beyond chance."),
    table("Drift", head, rows),
  ];
}

function next(mine, front, now) {
  const plan = mine?.campaign;
  if (plan?.problem) return notice("bad", `No campaign could be planned: ${plan.problem}`);
  if (!plan?.nodes.length) {
    return plan
      ? el("p", {}, "Nothing is wanted: what jobs ask for is measured.")
      : nothing("Retraining plans it from what jobs ask for: see [backfill] of ", [
          code("colltune site retrain --print-unit site"),
          ".",
        ]);
  }
  const rows = plan.wanted.map((one) => [
    one.collective,
    one.shape.replace("x", " × "),
    one.requests,
    one.extrapolated,
    one.abstained,
  ]);
  return [
    el(
      "p",
      {},
      `${plan.collectives.join(", ")} on ${plan.nodes.join(", ")} nodes, `,
      `${plan.ppn.join(", ")} per node: about ${duration(plan.expected_s)} of a budget of `,
      `${duration(plan.budget_s)}, for ${percent(plan.covered)} of what is wanted. Planned `,
      since(front.reported_utc, now),
      "; ",
      code("colltune submit"),
      " measures it.",
    ),
    table("Most wanted", ["collective", "shape", "requests", "sizes outside", "unsure"], rows),
  ];
}

async function lastChange(app, slot, signal) {
  const event = app.overview.history.find((one) => one.slot === slot.slot && one.in_force);
  if (!event || !previousOf(event)) return nothing("No bundle was in force before this one.");
  const note = event.note ? ` “${event.note}”` : "";
  const who = el("p", {}, `${event.by}, `, since(event.at_utc, app.now), note);
  return [who, await changeWords(event, signal)];
}

function promotions({ overview, now }) {
  if (!overview.history.length) {
    return nothing("This service has one bundle and no registry.");
  }
  const told = overview.history.slice(0, EVENTS).map((event) => {
    const what = `${event.slot}: ${ACTIONS[event.action] ?? event.action} `;
    const who = ` by ${event.by}${event.note ? `: “${event.note}”` : ", without a note"}`;
    return el("li", {}, what, bundleLink(event, event.bundle), " ", since(event.at_utc, now), who);
  });
  return [el("ul", {}, told), el("p", {}, el("a", { href: href({ view: "history" }) }, "All of the history"))];
}
