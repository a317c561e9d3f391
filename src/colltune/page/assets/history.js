// Which bundle came into force when, who said so and why, and what that changed.

import { get } from "./api.js";
import { el, notice, table } from "./dom.js";
import { href } from "./state.js";
import { age, count, factor, percent, range, shortId, stamp } from "./words.js";

export const ACTIONS = {
  promote: "promoted",
  rollback: "rolled back",
  step: "on trial",
  stop: "trial ended",
};
const HEAD = ["when", "library", "what", "bundle", "by", "note"];

function state(event) {
  if (event.in_force) return el("small", {}, "in force");
  if (event.share) return el("small", {}, `with ${percent(event.share)} of the jobs`);
  return event.is_latest ? el("small", { class: "alarm" }, "not taken up by this service") : null;
}

// What a bundle decides can be looked at whether it is in force or not.
export function bundleLink(event, bundle) {
  const inForce = event.in_force && bundle === event.bundle;
  return el(
    "a",
    {
      href: href({ view: "map", slot: event.slot, bundle: inForce ? "" : bundle }),
      title: `Look at ${bundle}`,
    },
    el("code", {}, shortId(bundle)),
  );
}

export function previousOf(event) {
  return event.previous === event.bundle ? null : event.previous;
}

function eventCells(event, now) {
  return [
    [stamp(event.at_utc), el("small", {}, age(event.at_utc, now))],
    event.slot,
    [ACTIONS[event.action] ?? event.action, state(event)],
    [
      bundleLink(event, event.bundle),
      event.previous
        ? el(
            "small",
            {},
            event.share === null ? "before: " : "in force: ",
            bundleLink(event, event.previous),
          )
        : null,
    ],
    event.by,
    event.note || el("span", { class: "soft" }, "no note"),
  ];
}

// What an event changed, in words, with links to the same as a map.
export async function changeWords(event, signal) {
  const query = { bundle: event.bundle, against: previousOf(event) };
  const { data: found } = await get("v1/view/changes", query, signal);
  const changed = found.collectives.filter((one) => one.share > 0);
  if (!changed.length) {
    return el("p", {}, `No decision changed on ${count(found.shapes, "shape")}.`);
  }
  const extents = changed.map((one) => [
    el("a", { href: mapLink(event, one.name) }, one.mpi_name),
    percent(one.share),
    factor(one.ratio),
  ]);
  const rows = found.largest.map((one) => [
    one.mpi_name,
    `${one.nodes} × ${one.ppn}`,
    range(one.first_bytes, one.last_bytes),
    `${one.old} → ${one.new}`,
    factor(one.ratio),
  ]);
  const head = ["collective", "shape", "message", "before → now", "speed-up"];
  return [
    table("What changed", ["collective (map)", "decisions changed", "speed-up"], extents),
    el("p", { class: "soft small" }, `Predicted by the new models, on ${count(found.shapes, "shape")}.`),
    el("details", {}, el("summary", {}, "The largest changes"), table("Changes", head, rows)),
  ];
}

function mapLink(event, collective) {
  const bundle = event.in_force ? "" : event.bundle;
  const against = previousOf(event);
  return href({ view: "map", show: "change", slot: event.slot, bundle, collective, against });
}

export function historyView({ overview, now, explain }, _slot, signal) {
  const heading = el("h2", {}, "Bundles in force, and how they came there");
  if (!overview.history.length) {
    return [
      heading,
      notice("info", "There is no history: this service has a single bundle and no registry."),
    ];
  }
  const rows = overview.history.map((event) => {
    return Object.assign(eventCells(event, now), {
      kind: event.in_force || event.on_trial ? "chosen" : null,
      below: previousOf(event) ? changes(event, explain, signal) : null,
    });
  });
  return [
    heading,
    table("History of the bundles", HEAD, rows, { words: [4, 5], cards: true }),
    overview.history_left_out
      ? el("p", { class: "soft" }, `${overview.history_left_out} older events are not shown.`)
      : null,
  ];
}

// Compared when it is unfolded, since that takes the service a second.
function changes(event, explain, signal) {
  const box = el("div", {}, "Comparing…");
  const unfold = async () => {
    try {
      box.replaceChildren(...[await changeWords(event, signal)].flat());
    } catch (error) {
      box.replaceChildren(explain(error) ?? "");
    }
  };
  const folded = el("details", {}, el("summary", {}, "What it changed"), box);
  folded.addEventListener("toggle", unfold, { once: true });
  return folded;
}
