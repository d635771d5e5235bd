import { ask, complain, draw, explain, find, keep, make, whole } from "./common.js";

const STATES = {
  running: "Running. You can close this page; the run goes on.",
  stopped: "Stopped. The work is kept.",
  interrupted: "keyhole ended during this run. What it had kept can be resumed.",
};
const EMPTY = {
  stopped: "Stopped before there was any work to keep.",
  interrupted: "keyhole ended before there was any work to keep: start again.",
};
let source = null;

function settings() {
  return {
    time_limit: find("time-limit").value.trim(), seed: Number(find("seed").value || 1), quick: find("quick").checked,
    policies: [...document.querySelectorAll(".policy:checked")].map((box) => box.value), limits: find("limits").value.trim(),
  };
}

/** Show a state of the run: buttons, words, table and picture. */
function show({ state, progress, outcome, kept }) {
  const running = state === "running";
  find("progress").hidden = state === "none";
  find("progress").dataset.state = state;
  find("stop").hidden = !running;
  find("start").hidden = running;
  const more = state === "done" && outcome?.stopped === "time" && outcome.grade !== "converged";
  const ended = ["stopped", "interrupted", "failed"].includes(state);
  find("resume").hidden = running || !kept || !(ended || more);
  find("resume").textContent = more ? "Go on for as long again" : "Resume";
  find("start").textContent = state === "none" ? "Start" : "Run again";
  find("start").classList.toggle("main", find("resume").hidden && state !== "done");
  find("resume").classList.toggle("main", state !== "done");
  find("to-answer").classList.toggle("main", state === "done");
  find("to-answer").hidden = running || state !== "done";
  find("state").textContent = (ended && !kept ? EMPTY : STATES)[state] ?? (outcome ? describe(state, outcome) : "");
  if (running && progress && !progress.chains.length) find("state").textContent += " Preparing (the first run on this machine compiles for about a minute) ...";
  if (progress) showProgress(progress, running);
}

function describe(state, outcome) {
  if (state === "failed") return outcome.message;
  const { mean, interval, pooled } = outcome.tau1;
  const round = (value) => whole(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));
  const range = `${round(interval[0])} to ${round(interval[1])}`;
  return `Done: ${outcome.grade}. ${pooled ? `About ${round(mean)} (${range})` : range} records are alone in the population.`;
}

function showProgress(progress, running) {
  find("notices").replaceChildren(
    ...progress.notices.map((notice) => make("p", { class: notice.warning ? "wrong" : "note" }, notice.message)),
  );
  const table = find("chains");
  table.hidden = !progress.chains.length;
  table.tBodies[0].replaceChildren(
    ...progress.chains.map((chain) => {
      const cells = [chain.draws, chain.sweeps, Math.round(chain.speed), chain.profiles].map(whole);
      cells.push(chain.tau1 === null ? "" : chain.tau1.toFixed(1));
      return make("tr", {}, make("th", { scope: "row", class: "n" }, String(chain.chain)), ...cells.map((text) => make("td", { class: "n" }, text)));
    }),
  );
  const model = progress.quick ? "Quick answer of the simpler model. " : "";
  find("whole").textContent = running && progress.whole ? model + progress.whole : "";
  find("missing").textContent = running && progress.missing.length ? `Not met yet: ${progress.missing.map(name).join("; ")}.` : "";
  drawBand(progress.band);
}

const NAMES = [
  [/^rhat/, "agreement of the chains (R-hat)"],
  [/^ess/, "effective draws"],
  [/^mcse/, "Monte Carlo error"],
  [/^drift/, "no drift"],
];

function name(gate) {
  const [, words] = NAMES.find(([pattern]) => pattern.test(gate)) ?? [null, gate];
  const of = gate.match(/tau[12]/);
  return of ? `${words} of ${of[0]}` : words;
}

/** Draw the range over chains of tau1 so far, by time. */
function drawBand(points) {
  find("band-figure").hidden = points.length < 2;
  if (points.length < 2) return;
  const left = 48, right = 392, top = 10, bottom = 158;
  const last = points[points.length - 1][0], first = points[0][0];
  // The beginning, where chains come from far away, does not decide the scale.
  const late = points.slice(Math.floor(points.length / 10));
  let low = Math.min(...late.map((point) => point[1])), high = Math.max(...late.map((point) => point[2]));
  const pad = 0.1 * (high - low) || 1;
  low = Math.max(0, low - pad);
  high += pad;
  const x = (time) => left + ((time - first) / Math.max(last - first, 1e-9)) * (right - left);
  const y = (value) => bottom - ((Math.min(Math.max(value, low), high) - low) / (high - low)) * (bottom - top);
  const line = (column) => points.map((point) => `${x(point[0]).toFixed(1)},${y(point[column]).toFixed(1)}`);
  const ticks = [0, 0.5, 1].map((share) => low + share * (high - low));
  const places = high - low < 10 ? 1 : 0;
  find("band").replaceChildren(
    find("band-title"),
    ...ticks.flatMap((value) => [
      draw("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "axis" }),
      draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end", class: "tick" }, value.toFixed(places)),
    ]),
    draw("polygon", { points: [...line(1), ...line(2).reverse()].join(" "), class: "area" }),
    draw("polyline", { points: line(1).join(" "), class: "edge" }),
    draw("polyline", { points: line(2).join(" "), class: "edge" }),
    draw("text", { x: left, y: bottom + 18, class: "tick" }, `${Math.round(first)} s`),
    draw("text", { x: right, y: bottom + 18, "text-anchor": "end", class: "tick" }, `${Math.round(last)} s`),
    draw("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle", class: "label" }, "time since the start"),
  );
}

/** Follow the run until it ends; the browser connects again by itself. */
function follow() {
  source?.close();
  source = new EventSource(`/api/${document.body.dataset.project}/progress`);
  source.addEventListener("message", (event) => {
    const found = JSON.parse(event.data);
    show(found);
    if (found.state !== "running") source.close();
  });
}

async function begin(body) {
  complain("");
  try {
    await keep(settings());
    await ask("run", body);
    if (find("changed")) find("changed").hidden = true;
    follow();
  } catch (error) {
    explain(error);
  }
}

find("settings").addEventListener("submit", (event) => event.preventDefault());
find("settings").addEventListener("change", () => keep(settings()));
find("start").addEventListener("click", () => begin({}));
find("resume").addEventListener("click", () => begin({ resume: true, time_limit: settings().time_limit }));
find("stop").addEventListener("click", async () => {
  find("state").textContent = "Stopping ...";
  await ask("stop").catch((error) => explain(error));
  follow();
});
follow();
