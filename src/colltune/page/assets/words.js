// Numbers for people, as colltune's other outputs write them.

import { el } from "./dom.js";

const UNITS = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
];
const TIMES = [
  ["s", 1],
  ["ms", 1e-3],
  ["µs", 1e-6],
];
const AGES = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];

export function bytes(n) {
  for (const [unit, size] of UNITS) {
    if (n >= size && Number.isInteger((n / size) * 2)) return `${n / size} ${unit}`;
  }
  return `${String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f")} B`;
}

export function shortBytes(n) {
  for (const [unit, size] of UNITS) {
    if (n >= size) return `${Number((n / size).toPrecision(3))}${unit[0]}`;
  }
  return `${n}`;
}

export function time(seconds) {
  const [unit, scale] = TIMES.find(([, least]) => seconds >= least) ?? TIMES[2];
  return `${Number((seconds / scale).toPrecision(3))} ${unit}`;
}

export function factor(value) {
  return value === null || value === undefined ? "–" : `${value.toFixed(2)}×`;
}

export function percent(share) {
  return `${Math.round(share * 100)}\u00a0%`;
}

export function range(first, last) {
  if (last === null) return `from ${bytes(first)}`;
  const isWhole = last % 1024 === 1023;
  return `${bytes(first)} to ${isWhole ? `<${bytes(last + 1)}` : bytes(last)}`;
}

// How long ago, by the service's clock; a clock that went back gives no negative ages.
export function age(then, now) {
  const seconds = (now - Date.parse(then)) / 1000;
  if (!Number.isFinite(seconds)) return "at an unknown time";
  if (seconds < -60) return "in the future, by the service's clock";
  for (const [unit, length] of AGES) {
    const whole = Math.floor(seconds / length);
    if (whole >= 1) return `${count(whole, unit)} ago`;
  }
  return "just now";
}

// The same as an element that tells the very time when it is pointed at.
export function since(then, now) {
  return el("time", { datetime: then, title: stamp(then) }, age(then, now));
}

export function duration(seconds) {
  const [unit, length] = AGES.find(([, least]) => seconds >= least) ?? ["second", 1];
  return count(Number((seconds / length).toPrecision(2)), unit);
}

export function count(n, what) {
  return `${n} ${what}${n === 1 ? "" : /(s|ch)$/.test(what) ? "es" : "s"}`;
}

export function stamp(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime())
    ? text
    : `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

// Text with `commands` in it.
export function withCode(text) {
  return text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

export function shortId(id) {
  return id.slice(0, 12);
}

// Bytes from "64K", "64 KiB", "1.5M" or "65536"; null if it is none of these.
export function parseBytes(text) {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(?:([KMG])(?:i?B)?|B)?\s*$/i.exec(text);
  if (!found) return null;
  const scale = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }[found[2]?.toUpperCase()] ?? 1;
  const value = Number(found[1]) * scale;
  return Number.isSafeInteger(value) ? value : null;
}

// A shell word: quoted unless it is plain.
export function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// A shell word in which "@folder@" becomes the folder; of it only a leading $HOME or ~ is expanded.
export function inFolder(word, folder) {
  if (!word.includes("@folder@")) return quoted(word);
  const plain = folder.replace(/\/+$/, "");
  const home = /^(?:~|\$HOME|\$\{HOME\})(\/.*)?$/.exec(plain);
  const whole = word.replaceAll("@folder@", () => (home ? `\u0000${home[1] ?? ""}` : plain));
  if (!home) return quoted(whole);
  return whole
    .split("\u0000")
    .map((part) => (part ? quoted(part) : ""))
    .join('"$HOME"');
}
