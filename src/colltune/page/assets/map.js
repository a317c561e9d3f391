// The decision map: a grid of shapes over message sizes that is walked with the arrow keys.

import { el, scrolled } from "./dom.js";
import { bytes, factor, shortBytes } from "./words.js";

const COLOURS = 7;
const HATCHES = 6;
const GAINS = [1, 1.2, 1.5, 2, 4];
const PAGE = 8;
const UNKNOWN = "U"; // the reason of what is used without knowing the default's time

export function styleOf(configuration) {
  if (configuration.is_default) return "kept";
  const at = configuration.rank - 1;
  return `c${at % COLOURS} h${Math.floor(at / COLOURS) % HATCHES}`;
}

function gainStyle(gain) {
  return `g${GAINS.findLastIndex((least) => gain >= least)}`;
}

const LOOKS = {
  choice(map, row, size) {
    const one = map.configurations[row.chosen[size]];
    return [one.code, styleOf(one)];
  },
  gain(map, row, size) {
    const why = map.reasons[row.why[size]];
    if (!why.replaced) return ["·", "kept"];
    if (why.code === UNKNOWN) return ["?", `r${why.code}`];
    const gain = row.gain[size];
    return [gain < 9.95 ? gain.toFixed(1) : String(Math.round(gain)), gainStyle(Math.max(gain, 1))];
  },
  reason(map, row, size) {
    const code = map.reasons[row.why[size]].code;
    return [code, `r${code}`];
  },
  change(map, row, size) {
    return CHANGES[changeAt(row, size)?.kind ?? "none"];
  },
};
// Colours of reasons serve: these are told apart in the same way.
const CHANGES = {
  none: ["·", "kept", "decided as before"],
  begun: ["+", "rG", "tuned now, the default before"],
  other: ["≠", "rU", "tuned otherwise than before"],
  ended: ["−", "rE", "the default again"],
};

function changeAt(row, size) {
  return row.changes.find((one) => one.first <= size && size <= one.last);
}

// What a field says in words: read out for the field in focus, shown for the one pointed at.
export function told(map, row, size) {
  const one = map.configurations[row.chosen[size]];
  const why = map.reasons[row.why[size]];
  const where = `${row.nodes} × ${row.ppn}, ${bytes(map.msize_bytes[size])}`;
  const bound = row.bound[size] === null ? "" : `, at least ${factor(row.bound[size])}`;
  const gain =
    why.replaced && row.gain[size] !== 1
      ? `, predicted gain ${factor(row.gain[size])}${bound}`
      : "";
  const outside = row.extrapolated[size] ? "; outside the measured range" : "";
  const change = changeAt(row, size);
  const was = change
    ? `; was ${change.old}, ${change.ratio === null ? "" : `predicted ${factor(change.ratio)} as fast`}`
    : "";
  return `${where}: ${one.is_default ? "default" : one.name}${gain} (${why.text})${outside}${was}`;
}

// Returns the map's box; `pick(nodes, ppn, msize)` is called for a field that is clicked or entered.
export function mapGrid(map, { show, measuredOnly, at, pick, readout }) {
  const sizes = map.msize_bytes
    .map((_, i) => i)
    .filter((i) => !measuredOnly || map.measured_sizes[i]);
  const look = LOOKS[show];
  const cells = [];
  let previousPpn = null;
  const rows = map.rows.map((row, r) => {
    const first = row.ppn !== previousPpn && previousPpn !== null;
    previousPpn = row.ppn;
    cells.push(
      sizes.map((size, c) => {
        const [text, style] = look(map, row, size);
        const seen = row.measured && map.measured_sizes[size];
        const state = `${row.extrapolated[size] ? " outside" : ""}${seen ? " seen" : ""}`;
        return el(
          "td",
          {
            role: "gridcell",
            class: `f ${style}${state}`,
            tabindex: "-1",
            "data-r": r,
            "data-c": c,
            "aria-selected": "false",
          },
          text,
        );
      }),
    );
    return el(
      "tr",
      { class: first ? "group" : null },
      el(
        "th",
        { scope: "row", class: row.measured ? "seen" : "unseen" },
        `${row.nodes}\u202f×\u202f${row.ppn}`,
      ),
      cells[r],
    );
  });
  const head = el(
    "tr",
    {},
    el("th", { scope: "col", class: "corner" }, "nodes\u202f×\u202fppn"),
    sizes.map((size) =>
      el(
        "th",
        { scope: "col", class: map.measured_sizes[size] ? "seen" : "unseen" },
        el("span", {}, shortBytes(map.msize_bytes[size])),
      ),
    ),
  );
  const table = el(
    "table",
    {
      role: "grid",
      class: "map",
      "aria-label": `${map.mpi_name}: shapes in rows, message sizes in columns. Arrow keys move, Enter shows the predictions.`,
    },
    el("thead", {}, head),
    el("tbody", {}, rows),
  );
  const size = (c) => sizes[c];
  wire(table, cells, {
    pick: (r, c) => pick(map.rows[r].nodes, map.rows[r].ppn, map.msize_bytes[size(c)]),
    tell: (r, c) => readout(told(map, map.rows[r], size(c))),
    label: (r, c) => told(map, map.rows[r], size(c)),
    start: find(map, sizes, at),
  });
  const box = scrolled(`${map.mpi_name}: decision map, scrolls sideways`, table);
  box.removeAttribute("tabindex");
  requestAnimationFrame(() => {
    const chosen = table.querySelector('[aria-selected="true"]');
    if (chosen) box.scrollLeft = chosen.offsetLeft - box.clientWidth / 2;
  });
  return box;
}

function find(map, sizes, at) {
  if (!at) return null;
  const r = map.rows.findIndex((row) => row.nodes === at.nodes && row.ppn === at.ppn);
  const c = sizes.findIndex((i) => map.msize_bytes[i] === at.msize);
  return r >= 0 && c >= 0 ? [r, c] : null;
}

function wire(table, cells, { pick, tell, label, start }) {
  let [row, column] = start ?? [0, 0];
  const move = (r, c, focus) => {
    cells[row][column].setAttribute("tabindex", "-1");
    [row, column] = [r, c];
    const cell = cells[r][c];
    cell.setAttribute("tabindex", "0");
    if (!cell.hasAttribute("aria-label")) cell.setAttribute("aria-label", label(r, c));
    if (focus) cell.focus();
  };
  const select = (r, c) => {
    for (const old of table.querySelectorAll('[aria-selected="true"]'))
      old.setAttribute("aria-selected", "false");
    cells[r][c].setAttribute("aria-selected", "true");
  };
  const place = (event) => {
    const cell = event.target.closest("td.f");
    return cell ? [Number(cell.dataset.r), Number(cell.dataset.c)] : null;
  };
  move(row, column, false);
  if (start) select(row, column);
  table.addEventListener("click", (event) => {
    const at = place(event);
    if (!at) return;
    move(...at, true);
    select(...at);
    pick(...at);
  });
  table.addEventListener("mouseover", (event) => {
    const at = place(event);
    if (at) tell(...at);
  });
  table.addEventListener("focusin", (event) => {
    const at = place(event);
    if (at) tell(...at);
  });
  table.addEventListener("keydown", (event) => {
    const to = destination(event, row, column, cells.length - 1, cells[0].length - 1);
    if (to) {
      move(...to, true);
    } else if (event.key === "Enter" || event.key === " ") {
      select(row, column);
      pick(row, column);
    } else return;
    event.preventDefault();
  });
}

function destination(event, row, column, lastRow, lastColumn) {
  if (event.altKey || event.metaKey) return null;
  const within = (value, last) => Math.min(Math.max(value, 0), last);
  switch (event.key) {
    case "ArrowRight":
      return [row, within(column + 1, lastColumn)];
    case "ArrowLeft":
      return [row, within(column - 1, lastColumn)];
    case "ArrowDown":
      return [within(row + 1, lastRow), column];
    case "ArrowUp":
      return [within(row - 1, lastRow), column];
    case "PageDown":
      return [within(row + PAGE, lastRow), column];
    case "PageUp":
      return [within(row - PAGE, lastRow), column];
    case "Home":
      return [event.ctrlKey ? 0 : row, 0];
    case "End":
      return [event.ctrlKey ? lastRow : row, lastColumn];
    default:
      return null;
  }
}

// What colours and codes of a map mean.
export function legend(map, show) {
  const entry = (style, code, ...words) =>
    el("li", {}, el("span", { class: `key f ${style}`, "aria-hidden": "true" }, code), " ", words);
  if (show === "gain") {
    return el(
      "ul",
      { class: "legend" },
      entry("kept", "·", "default kept"),
      map.reasons.some((why) => why.code === UNKNOWN && why.fields)
        ? entry(`r${UNKNOWN}`, "?", "not known: the default was not measured")
        : null,
      GAINS.map((least, i) =>
        entry(
          `g${i}`,
          least.toFixed(1),
          i + 1 < GAINS.length ? `${least} to ${GAINS[i + 1]} × as fast` : `${least} × and more`,
        ),
      ),
    );
  }
  if (show === "change") {
    return el(
      "ul",
      { class: "legend" },
      Object.values(CHANGES).map(([code, style, text]) => entry(style, code, text)),
    );
  }
  if (show === "reason") {
    return el(
      "ul",
      { class: "legend long" },
      map.reasons
        .filter((why) => why.fields)
        .map((why) =>
          entry(
            `r${why.code}`,
            why.code,
            `${why.text} `,
            el("span", { class: "soft" }, fields(why.fields)),
          ),
        ),
    );
  }
  const used = map.configurations.filter((one) => one.fields || one.is_default);
  used.sort((a, b) => a.rank - b.rank || b.fields - a.fields);
  return el(
    "ul",
    { class: "legend" },
    used.map((one) =>
      entry(
        styleOf(one),
        one.code,
        one.is_default ? "default: the library decides " : `${one.name} `,
        el("span", { class: "soft" }, fields(one.fields)),
      ),
    ),
  );
}

function fields(count) {
  return `(${count} field${count === 1 ? "" : "s"})`;
}
