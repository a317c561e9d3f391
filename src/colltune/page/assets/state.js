// What is shown stands in the address behind the #, so that a link shows the same to somebody else.

import { FILE } from "./api.js";

const FIELDS = [
  "view",
  "slot",
  "bundle",
  "collective",
  "show",
  "against",
  "sizes",
  "at",
  "nodes",
  "ppn",
  "format",
];
const VIEWS = FILE?.views ?? ["front", "gains", "map", "job", "evidence", "production", "history"];
export const SHOWS = ["choice", "gain", "reason", "change"];

export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = Object.fromEntries(FIELDS.map((name) => [name, given.get(name) ?? ""]));
  // links from before there was a front name no view
  if (!VIEWS.includes(state.view)) state.view = state.collective || state.at ? "map" : VIEWS[0];
  if (!SHOWS.includes(state.show)) state.show = "choice";
  for (const name of ["bundle", "against"]) {
    if (!/^[0-9a-f]{4,64}$/.test(state[name])) state[name] = "";
  }
  if (["front", "production"].includes(state.view)) state.bundle = "";
  if (state.sizes !== "measured") state.sizes = "";
  return state;
}

export function href(state) {
  const kept = FIELDS.filter(
    (name) => state[name] && !(name === "show" && state.show === "choice"),
  );
  return `#${new URLSearchParams(kept.map((name) => [name, state[name]]))}`;
}

// "16x1x65536": nodes, processes per node, bytes; null if it is nothing of the kind.
export function parseAt(text) {
  const found = /^(\d{1,18})x(\d{1,18})x(\d{1,18})$/.exec(text);
  if (!found) return null;
  const [nodes, ppn, msize] = found.slice(1).map(Number);
  return nodes >= 1 && ppn >= 1 && [nodes, ppn, msize].every(Number.isSafeInteger)
    ? { nodes, ppn, msize }
    : null;
}

export function atText({ nodes, ppn, msize }) {
  return `${nodes}x${ppn}x${msize}`;
}
