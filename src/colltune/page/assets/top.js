// What stands above every view: whose decisions these are, and what there is to know about that.

import { FILE } from "./api.js";
import { button, el, field, notice, options } from "./dom.js";
import { href } from "./state.js";
import { count, shortId, since } from "./words.js";

function span([low, high], what) {
  return low === high ? count(low, what) : `${low}–${count(high, what)}`;
}

// The machine, the bundle and its age, and the choice of a library.
export function header({ state, overview, now, go }, slot) {
  for (const link of document.querySelectorAll("nav [data-view]")) {
    const { view } = link.dataset;
    if (FILE && !FILE.views.includes(view)) link.remove();
    const bundle = ["front", "production"].includes(view) ? "" : state.bundle;
    link.href = href({ ...state, view, bundle, against: "" });
    if (view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (FILE) document.getElementById("interface")?.remove();
  if (slot) facts({ overview, now, go }, slot);
}

function facts({ overview, now, go }, slot) {
  document.getElementById("machine").textContent = slot.machine;
  document.title = `colltune: ${slot.machine}`;
  const name = (one) => `${one.library_title} ${one.release}`;
  const choose = (event) => go({ slot: event.target.value, bundle: "", at: "", against: "" });
  const releases = options(overview.slots.map((one) => [one.slot, name(one)]), slot.slot);
  const library = FILE
    ? null
    : field("Library", el("select", { name: "in-force", onchange: choose }, releases));
  const measured = `${span(slot.nodes, "node")}, ${span(slot.ppn, "process")} per node`;
  const ofService = [
    ["bundle", el("code", { title: slot.bundle }, shortId(slot.bundle))],
    ["fitted", since(slot.created_utc, now)],
    ["in force since", overview.looked_at ? null : since(slot.since_utc, now)],
    ["objective", `${slot.objective} of the runtime`],
    ["measured on", measured],
    ["fabric", slot.fabric],
    ["as a file", el("a", { href: `v1/bundles/${encodeURIComponent(slot.bundle)}/report` }, "report")],
  ];
  const items = FILE ? [["library", name(slot)], ["measured on", measured]] : ofService;
  const told = items.filter(([, value]) => value).map(([what, value]) =>
    el("div", {}, el("dt", {}, what), el("dd", {}, value)),
  );
  document.getElementById("facts").replaceChildren(...[library, el("dl", {}, told)].filter(Boolean));
}

// What is not as one would think, as long as it lasts: notices that come before any other.
export function standing({ overview, newer, go, start }) {
  const found = [];
  if (newer) found.push(notice("warn", `${newer} `, button("Show the new one", start)));
  const other = overview?.looked_at;
  if (other && overview.slots.every((one) => one.bundle !== other.bundle)) {
    const release = `${other.library_title} ${other.release}`;
    const text = `You look at ${shortId(other.bundle)}, which is not in force for ${release}. `;
    const back = () => go({ bundle: "", slot: other.slot });
    found.push(notice("warn", text, button("Back to what is in force", back)));
  }
  return [...found, ...(overview?.warnings ?? []).map((text) => notice("bad", text))];
}
