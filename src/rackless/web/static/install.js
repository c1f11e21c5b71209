// The install: what is wrong on top, the steps as a chart, the logs of the lab's parts.

import { complain } from "./ask.js";
import { chart, title } from "./chart.js";
import { bytes, clock, h, seconds, section, show } from "./dom.js";
import { stepper } from "./rack.js";
import { get, place, store } from "./store.js";

const AGAIN = 1000;
const WHY_EVERY = 15_000;
const LOG_EVERY = 4000;

export function installView(main) {
  const why = h("div", { "aria-live": "polite" }, h("p", { class: "quiet" }, "Looking …"));
  const steps = h("div", {});
  const drawing = h("div", { class: "chart", tabindex: "0", role: "region", "aria-label": "Chart of the steps" });
  const table = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Steps as a table" });
  const log = h("pre", { class: "log", tabindex: "0" });
  const logs = h("select", { "aria-label": "Log", change: () => read(true) });
  show(main, h("h1", { class: "hidden" }, `Install of ${store.lab}`),
    section("Why", place("why"), why),
    section("Steps", place("install"), steps, drawing,
      h("div", { class: "legend" }, ["done", "running", "failed"].map((one) => h("span", { class: one }, one)), h("span", { class: "estimate" }, "expected, from the same step before or elsewhere")),
      h("details", {}, h("summary", {}, "As a table"), table)),
    section("Logs", place("logs"), h("p", {}, logs), log));

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
    show(steps, stepper(found.stages));
    if (!found.lanes.length) return show(drawing, h("p", { class: "quiet" }, "No step is in the lab's log."));
    show(drawing, chart(found, Date.now() / 1000, drawing.clientWidth || 900));
  }

  function rows() {
    if (!found) return;
    const all = found.lanes.flatMap((lane) => lane.bars).sort((one, other) => one.began - other.began);
    show(table, h("table", {}, h("thead", {}, h("tr", {}, ["Began", "Of", "Step", "Outcome", "Took", ""].map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, all.map((bar) => h("tr", {}, h("td", {}, h("time", {}, clock(bar.began))), h("td", {}, title(bar.subject)), h("td", {}, bar.phase), h("td", {}, bar.outcome),
        h("td", {}, bar.ended === null ? "" : seconds(bar.ended - bar.began)), h("td", {}, bar.detail))))));
  }
  main.querySelector("details").addEventListener("toggle", rows);

  async function ask() {
    try {
      const answer = await get(place("why"));
      if (closed) return;
      show(why, answer.findings.length ? answer.findings.map(finding) : h("p", { class: "fine" }, `✓ Nothing is wrong, as far as ${answer.rules} rules look.`));
    } catch (error) {
      show(why, h("p", { class: "quiet" }, `${error.message}. ${error.hint ?? ""}`));
    }
  }

  async function list() {
    try {
      const { logs: known } = await get(place("logs"));
      show(logs, known.map((one) => h("option", { value: one.name, selected: one.name === "labd" }, `${one.name} (${bytes(one.bytes)})`)));
      await read(true);
    } catch (error) {
      complain(error);
    }
  }

  let last = "";
  async function read(jump) {
    if (!logs.value || document.hidden) return;
    try {
      const { lines } = await get(`${place("logs", logs.value)}?lines=300`);
      const text = lines.join("\n");
      if (text === last && !jump) return;
      last = text;
      const atEnd = jump || log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.textContent = text || "It is empty.";
      if (atEnd) log.scrollTop = log.scrollHeight;
    } catch { /* the next time */ }
  }

  look();
  ask();
  list();
  const timers = [setInterval(ask, WHY_EVERY), setInterval(() => read(false), LOG_EVERY), setInterval(draw, AGAIN)];
  const resized = () => draw();
  window.addEventListener("resize", resized);
  return {
    happened: (batch) => { if (!timer && batch.some((one) => one.event?.startsWith("step"))) timer = setTimeout(look, AGAIN); },
    close: () => { closed = true; timers.forEach(clearInterval); clearTimeout(timer); window.removeEventListener("resize", resized); },
  };
}

function finding(one) {
  return h("article", { class: "finding" }, h("strong", {}, one.message), h("p", { class: "do" }, `Do: ${one.remedy}`),
    h("details", {}, h("summary", {}, `${one.rule} · what shows it: ${one.evidence.length}`), h("ul", {}, one.evidence.map((seen) => h("li", {}, `${seen.at ? `${seen.at}  ` : ""}${seen.source}: ${seen.text}`)))));
}
