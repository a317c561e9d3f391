// Which bundle came into force when, and who said so.

import { el, notice, scrolled } from "./dom.js";
import { href } from "./state.js";
import { age, shortId, stamp } from "./words.js";

const ACTIONS = { promote: "promoted", rollback: "rolled back" };

function state(event) {
  if (event.in_force) return el("small", {}, "in force");
  return event.is_latest ? el("small", { class: "alarm" }, "not taken up by this service") : null;
}

// What a bundle decides can be looked at whether it is in force or not.
function bundleLink(event, bundle) {
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

export function historyView({ overview, now }) {
  const heading = el("h2", {}, "Bundles in force, and how they came there");
  if (!overview.history.length) {
    return [
      heading,
      notice("info", "There is no history: this service has a single bundle and no registry."),
    ];
  }
  const head = ["when", "library", "what", "bundle", "before", "by", "note"];
  return [
    heading,
    scrolled(
      "History of the bundles",
      el(
        "table",
        { class: "numbers cards history" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            head.map((text) => el("th", { scope: "col" }, text)),
          ),
        ),
        el(
          "tbody",
          {},
          overview.history.map((event) =>
            el(
              "tr",
              { class: event.in_force ? "chosen" : null },
              el(
                "td",
                { "data-head": head[0] },
                stamp(event.at_utc),
                el("small", {}, age(event.at_utc, now)),
              ),
              el("td", { "data-head": head[1] }, event.slot),
              el(
                "td",
                { "data-head": head[2] },
                ACTIONS[event.action] ?? event.action,
                state(event),
              ),
              el("td", { "data-head": head[3] }, bundleLink(event, event.bundle)),
              el(
                "td",
                { "data-head": head[4] },
                event.previous ? bundleLink(event, event.previous) : "–",
              ),
              el("td", { "data-head": head[5], class: "words" }, event.by),
              el("td", { "data-head": head[6], class: "words" }, event.note),
            ),
          ),
        ),
      ),
    ),
    overview.history_left_out
      ? el("p", { class: "soft" }, `${overview.history_left_out} older events are not shown.`)
      : null,
  ];
}
