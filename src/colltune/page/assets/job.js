// "My job": a configuration file for nodes x ppn, and the line that puts it into effect.

import { button, el, field, notice, options, scrolled, table } from "./dom.js";
import { factor, inFolder, range } from "./words.js";

const HOME = "$HOME";
const LEAD =
  "Say how large the job is: you get the file for its MPI library, and the line that puts it into" +
  " effect. Shapes that were never measured work, too; it says what that means.";

// The form, and the answer to what the address asks for.
export async function jobView(app, slot, signal) {
  const { state, overview, go } = app;
  const writable = overview.slots.filter((one) => !one.not_written);
  const head = [el("h2", {}, "A configuration for my job"), el("p", { class: "soft" }, LEAD)];
  if (!writable.length)
    return [...head, notice("warn", `No file can be written: ${slot.not_written}`)];
  const form = jobForm(writable, { ...state, slot: slot.slot }, (asked) =>
    go(asked.slot === slot.slot ? asked : { ...asked, bundle: "" }),
  );
  const blocked = slot.not_written
    ? notice("warn", `${slot.library_title} ${slot.release}: ${slot.not_written}`)
    : null;
  if (blocked || !state.nodes || !state.ppn) return [...head, form, blocked];
  const asked = { nodes: state.nodes, ppn: state.ppn, format: state.format };
  try {
    const job = await app.ask("v1/view/job", asked, slot, signal);
    if (!job) return [];
    const answer = jobAnswer(job, slot, (text) => app.say(notice("info", text)));
    return [...head, form, el("section", { class: "answer" }, answer)];
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return [...head, form, app.explain(error)];
  }
}

function jobForm(slots, state, submit) {
  const slot = slots.find((one) => one.slot === state.slot) ?? slots[0];
  const whole = { type: "number", min: 1, max: 1e9, step: 1, inputmode: "numeric" };
  const count = (name, value) =>
    el("input", { name, value, required: true, autocomplete: "off", ...whole });
  const releases = slots.map((one) => [one.slot, `${one.library_title} ${one.release}`]);
  const library = el("select", { name: "slot" }, options(releases, slot.slot));
  const formatOptions = ({ formats }, chosen) => {
    const pairs = formats.map(({ name, title }, i) => (i ? [name, title] : ["", `${title} (usual)`]));
    return options(pairs.length ? pairs : [["", "none can be written"]], chosen);
  };
  const format = el("select", { name: "format" }, formatOptions(slot, state.format));
  library.addEventListener("change", () => {
    const other = slots.find((one) => one.slot === library.value);
    format.replaceChildren(...formatOptions(other, ""));
  });
  const onsubmit = (event) => {
    event.preventDefault();
    submit(Object.fromEntries(new FormData(event.target)));
  };
  return el(
    "form",
    { class: "job", onsubmit },
    field("Nodes", count("nodes", state.nodes)),
    field("Processes per node", count("ppn", state.ppn)),
    field("MPI library", library),
    field("File format", format),
    el("button", { type: "submit", class: "primary" }, "Show the configuration"),
  );
}

function jobAnswer(job, slot, say) {
  const heading = el(
    "h2",
    { tabindex: "-1" },
    `${job.nodes} × ${job.ppn} with ${slot.library_title} ${job.release}`,
  );
  const warnings = [
    el("p", { class: "soft" }, `For ${job.promise}.`),
    ...job.warnings.map((text) => notice("warn", text)),
  ];
  if (!job.changes_anything) {
    return [
      heading,
      warnings,
      notice(
        "info",
        "Everything is left to the library for this job: no file is needed, and nothing has to be set.",
      ),
      decisions(job),
    ];
  }
  return [
    heading,
    warnings,
    recipe(job, say),
    decisions(job),
    job.notes.length
      ? el(
          "section",
          {},
          el("h3", {}, "Left to the library"),
          el(
            "ul",
            {},
            job.notes.map((text) => el("li", {}, text)),
          ),
        )
      : null,
    job.files.map((file) =>
      el(
        "details",
        {},
        el("summary", {}, `Text of ${file.name}`),
        scrolled(`Text of ${file.name}`, el("pre", {}, file.text)),
      ),
    ),
  ];
}

function recipe(job, say) {
  const folder = el("input", {
    name: "folder",
    value: HOME,
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
  });
  const [fetched, used] = [el("div", {}), el("div", {})];
  const snippets = (pairs) => pairs.map(([label, text]) => snippet(label, text, say));
  const draw = () => {
    const wrong = problem(folder.value);
    fetched.replaceChildren(
      ...(wrong ? [notice("bad", wrong)] : snippets(fetching(job, folder.value))),
    );
    used.replaceChildren(...(wrong ? [] : snippets(using(job, folder.value))));
  };
  folder.addEventListener("input", draw);
  draw();
  return el(
    "section",
    { class: "recipe" },
    el("h3", {}, "1. Put the file where all nodes see it"),
    el(
      "p",
      {},
      job.files.map((file) =>
        el(
          "a",
          { class: "download", href: file.url, download: file.name },
          `Download ${file.name}`,
        ),
      ),
    ),
    field("Folder", folder, "An absolute path; $HOME and ~ are understood."),
    fetched,
    el("h3", {}, "2. Add one of these to the job script"),
    used,
  );
}

// Why a path cannot be the folder of the files; empty if it can.
function problem(folder) {
  if (!/^(?:\/|~(?:\/|$)|\$HOME(?:\/|$)|\$\{HOME\}(?:\/|$))/.test(folder))
    return "The folder must be an absolute path: every rank would take another one from its own working directory.";
  if (/[\u0000-\u001f\u007f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069]/.test(folder))
    return "The folder's name has characters that cannot be seen.";
  return "";
}

function fetching(job, folder) {
  const fetches = job.files.map((file) => {
    const url = new URL(file.url, document.baseURI);
    url.hash = "";
    return `curl -fsS -o ${inFolder(`@folder@/${file.name}`, folder)} '${url.href.replaceAll("'", "%27")}'`;
  });
  return [["Or fetch it from the command line", fetches.join("\n")]];
}

function using(job, folder) {
  const pairs = Object.entries(job.environment).map(
    ([name, value]) => `${name}=${inFolder(value, folder)}`,
  );
  const words = job.command.map((word) => inFolder(word, folder));
  return [
    ["The environment: for srun, mpirun and mpiexec", `export ${pairs.join(" ")}`],
    ["Or the launcher's command line", `${words.join(" ")} …`],
  ];
}

function snippet(label, text, say) {
  const code = el("pre", {}, text);
  return el(
    "div",
    { class: "snippet" },
    el(
      "div",
      { class: "snippet-head" },
      el("span", {}, label),
      button(
        "Copy",
        () =>
          copy(text, code).then((done) =>
            say(done ? "Copied." : "Could not copy: the text is selected, copy it by hand."),
          ),
        { "aria-label": `Copy: ${label}` },
      ),
    ),
    scrolled(label, code),
  );
}

// The clipboard is closed to pages without TLS; there the old way is left.
async function copy(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const selection = getSelection();
    selection.selectAllChildren(shown);
    try {
      return document.execCommand("copy");
    } catch {
      return false;
    }
  }
}

function decisions(job) {
  const head = ["collective", "message", "used", "predicted gain", "status", "why"];
  const unmeasured = (one) =>
    el("small", {}, one.extrapolated ? "outside what was measured" : "not measured itself");
  const rows = job.collectives.flatMap((one) =>
    one.intervals.map((interval, i) => {
      const row = [
        i === 0 ? [one.mpi_name, one.measured ? null : unmeasured(one)] : null,
        range(interval.first_bytes, interval.last_bytes),
        interval.is_default ? "default" : interval.name,
        factor(interval.gain),
        interval.status,
        interval.reason,
      ];
      const kind = interval.is_default ? null : "chosen";
      return Object.assign(row, { kind, span: one.intervals.length });
    }),
  );
  const told =
    "Predicted gain and reason are those at the geometric middle of each range. The file also has" +
    " rules for the smaller communicators that programs make.";
  return el(
    "section",
    {},
    el("h3", {}, `What is used on all ${job.nodes * job.ppn} processes, and why`),
    table("Decisions of this job", head, rows, { words: [5], cards: true }),
    el("p", { class: "soft" }, told),
  );
}
