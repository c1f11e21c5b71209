// The install: what is wrong on top, the steps as a chart, the logs of the lab's parts.

import { complain } from "./ask.js";
import { chart, title } from "./chart.js";
import { bytes, clock, h, prose, section, seconds, setText, show, span, table } from "./dom.js";
import { stepper } from "./rack.js";
import { get, place, store } from "./store.js";

const AGAIN = 1000;
const WHY_EVERY = 15_000;
const LOG_EVERY = 4000;
const MANY = 60; // lanes: so many are drawn anew less often
const POINT = "Point at a bar, or tap it, to read how that step went.";
const OUTCOMES = [["done", "done"], ["running", "running"], ["failed", "failed"], ["cancelled", "cut off"], ["unchanged", "was there already"]];

export function installView(main) {
  const why = h("div", { "aria-live": "polite" }, h("p", { class: "quiet" }, "Looking …"));
  const steps = h("div", {});
  const drawing = h("div", { class: "chart", tabindex: "0", role: "region", "aria-label": "Chart of the steps" });
  const rowsOf = h("div", {});
  const left = h("p", { class: "left" });
  const legend = h("div", { class: "legend" });
  const told = h("p", { class: "told quiet" }, POINT);
  const log = h("pre", { class: "log", tabindex: "0" });
  const logs = h("select", { "aria-label": "Log", change: () => read(true) });
  const only = h("input", { type: "search", placeholder: "all", "aria-label": "Only lines with", input: () => write(true) });
  show(main, h("h1", { class: "hidden" }, `Install of ${store.lab}`),
    section("Why", place("why"), why),
    h("div", { class: "beside" }, section("Steps", place("install"), steps, left, drawing,
      legend, told,
      h("details", {}, h("summary", {}, "As a table"), rowsOf)),
    section("Logs", place("logs"), h("div", { class: "form first" }, h("label", {}, "Log", logs), h("label", { class: "grow" }, "Only lines with", only)), log)));

  let found = null;
  let timer = 0;
  let closed = false;

  async function look() {
    timer = 0;
    try {
      found = await get(place("install"));
      if (!closed) draw();
    } catch (error) {
      complain(error);
    }
  }

  function draw() {
    if (!found) return;
    show(steps, found.goals.length ? stepper(found.goals) : null);
    if (!found.lanes.length) return show(drawing, h("p", { class: "quiet" }, "No step is in the lab's log."));
    const now = Date.now() / 1000;
    setText(left, standing(found, now));
    const outcomes = new Set(found.lanes.flatMap((lane) => lane.bars.map((bar) => bar.outcome)));
    const expects = found.ended === null && found.expected !== null;
    show(legend, OUTCOMES.filter(([one]) => outcomes.has(one)).map(([one, word]) => h("span", { class: one }, word)), expects ? h("span", { class: "estimate" }, "expected, from earlier runs on this computer") : null);
    show(drawing, chart(found, now, drawing.clientWidth || 900, { pick, tell: (text) => setText(told, text) }));
  }

  // What goes on is drawn as it grows, less often under somebody's pointer; what has ended stays as it is.
  let ticks = 0;
  function tick() {
    if (!found || found.ended !== null || document.hidden) return;
    const calm = found.lanes.length >= MANY || drawing.matches(":hover");
    if (++ticks % (calm ? 5 : 1) === 0) draw();
  }

  // a lane was chosen: the lines that speak of it
  function pick(subject) {
    only.value = subject ? title(subject) : "";
    write(true);
  }

  function rows() {
    if (!found) return;
    const all = found.lanes.flatMap((lane) => lane.bars).sort((one, other) => one.began - other.began);
    show(rowsOf, table("Steps as a table", ["Began", "Of", "Step", "Outcome", "Took", "Usually", ""], all.map((bar) => [h("time", {}, clock(bar.began)), title(bar.subject), bar.phase, bar.outcome,
      bar.ended === null ? "" : seconds(bar.ended - bar.began), bar.estimate === null ? "" : seconds(bar.estimate), bar.detail])));
  }
  main.querySelector("details").addEventListener("toggle", rows);

  async function ask() {
    try {
      const answer = await get(place("why"));
      if (closed) return;
      show(why, answer.findings.length ? answer.findings.map(finding) : h("p", { class: "fine" }, `✓ Nothing is wrong, as far as ${answer.rules} rules look.`));
    } catch (error) {
      show(why, h("p", { class: "quiet" }, prose(`${error.message}. ${error.hint ?? ""}`)));
    }
  }

  async function list() {
    try {
      const { logs: known } = await get(place("logs"));
      const first = known.find((one) => one.name === "labd" && one.bytes) ?? known.find((one) => one.bytes) ?? known[0];
      show(logs, known.map((one) => h("option", { value: one.name, selected: one === first }, `${one.name} (${bytes(one.bytes)})`)));
      await read(true);
    } catch (error) {
      complain(error);
    }
  }

  let last = [];
  async function read(jump) {
    if (!logs.value || document.hidden) return;
    try {
      const { lines } = await get(`${place("logs", logs.value)}?lines=600`);
      if (!jump && lines.length === last.length && lines.at(-1) === last.at(-1)) return;
      last = lines;
      write(jump);
    } catch { /* the next time */ }
  }

  function write(jump) {
    const wanted = only.value.toLowerCase();
    const lines = wanted ? last.filter((line) => line.toLowerCase().includes(wanted)) : last;
    const atEnd = jump || log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    setText(log, lines.join("\n") || (last.length ? `None of the last ${last.length} lines has that.` : "It is empty."));
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  look();
  ask();
  list();
  const timers = [setInterval(ask, WHY_EVERY), setInterval(() => read(false), LOG_EVERY), setInterval(tick, AGAIN)];
  const resized = () => draw();
  window.addEventListener("resize", resized);
  return {
    happened: (batch) => { if (!timer && batch.some((one) => one.event?.startsWith("step"))) timer = setTimeout(look, AGAIN); },
    close: () => { closed = true; timers.forEach(clearInterval); clearTimeout(timer); window.removeEventListener("resize", resized); },
  };
}

function standing(found, now) {
  if (found.ended !== null) return `from ${clock(found.began)} to ${clock(found.ended)}, ${span(found.ended - found.began)} in all`;
  const since = `since ${clock(found.began)}, ${span(now - found.began)} so far`;
  if (found.expected === null) return since;
  return found.expected > now ? `${since}; what goes on now ends in about ${span(found.expected - now)}` : `${since}; what goes on now takes longer than usual, by ${span(now - found.expected)}`;
}

function finding(one) {
  return h("article", { class: "finding" }, h("strong", {}, prose(one.message)), h("p", { class: "do" }, "Do: ", prose(one.remedy)),
    h("details", {}, h("summary", {}, `${one.rule} · what shows it: ${one.evidence.length}`), h("ul", {}, one.evidence.map((seen) => h("li", {}, `${seen.at ? `${seen.at}  ` : ""}${seen.source}: ${seen.text}`)))));
}
