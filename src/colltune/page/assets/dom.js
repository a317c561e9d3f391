// Elements from code. Data only ever becomes text or attributes: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(
    ...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

export function el(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

export function field(label, control, hint) {
  return el(
    "label",
    { class: "field" },
    el("span", {}, label),
    control,
    hint ? el("small", {}, hint) : null,
  );
}

export function options(pairs, chosen) {
  return pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
}

// A table in a box of its own that scrolls sideways, reachable by keyboard.
export function scrolled(label, ...children) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    ...children,
  );
}

// A table of rows of cells, the first of which names its row, or `row.span` rows of which the next
// have null; `row.kind` is the row's class, `row.below` stands under it. Columns of `words` may wrap; with `cards` a phone shows each row alone.
export function table(label, head, rows, { words = [], cards = false } = {}) {
  const cell = (content, i, row) => {
    if (content === null) return null;
    const inside = cards ? el("div", {}, content) : content;
    const style = words.includes(i) ? "words" : null;
    return i
      ? el("td", { "data-head": head[i], class: style }, inside)
      : el("th", { scope: "row", rowspan: row.span }, inside);
  };
  const below = (content) => el("tr", {}, el("td", { class: "below", colspan: head.length }, content));
  const drawn = (row) => [
    el("tr", { class: row.kind }, row.map(cell)),
    row.below ? below(row.below) : [],
  ];
  const titles = head.map((text) => el("th", { scope: "col" }, text));
  return scrolled(
    label,
    el(
      "table",
      { class: `numbers${cards ? " cards" : ""}` },
      el("caption", { class: "unseen-text" }, label),
      el("thead", {}, el("tr", {}, titles)),
      el("tbody", {}, rows.flatMap(drawn)),
    ),
  );
}

export function notice(kind, text, ...more) {
  return el("p", { class: `notice ${kind}` }, text, ...more);
}

export function button(text, action, attributes) {
  return el("button", { type: "button", onclick: action, ...attributes }, text);
}

// Draws to the width there is, and again when that changes.
export function fitted(box, drawn) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      box.replaceChildren(drawn(width));
    }
  }).observe(box);
}
