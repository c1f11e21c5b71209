// A swim-lane chart as SVG: a lane for each subject, a bar for each step, dashed where it will probably end.

import { seconds, svg } from "./dom.js";

const ROW = 20;
const GAP = 6;
const TOP = 22;
const END = 28; // pixels right of the last bar, for the axis' last label
const NAMES = 170;
const FONT = '11px system-ui, "DejaVu Sans", sans-serif'; // as style.css has it for charts

const pen = document.createElement("canvas").getContext("2d");
pen.font = FONT;
const wide = (text) => pen.measureText(text).width;

// `pick` hears the subject of a lane that was chosen, `tell` the words of a step that is pointed at.
export function chart({ lanes, began, ended }, now, width, { pick = null, tell = null } = {}) {
  const until = Math.max(ended ?? now, began + 1, ...lanes.flatMap((lane) => lane.bars.map((bar) => (bar.ended === null && bar.estimate ? bar.began + bar.estimate : 0))));
  const names = Math.min(NAMES, 16 + Math.max(...lanes.map((lane) => wide(title(lane.subject)))));
  const room = Math.max(width - names - END, 240);
  const end = names + room;
  const x = (at) => names + ((at - began) / (until - began)) * room;
  const parts = [];
  let y = TOP;
  for (const lane of lanes) {
    const rows = stack(lane.bars, (bar) => bar.ended ?? until);
    parts.push(svg("line", { class: "rule", x1: 0, x2: end, y1: y - GAP / 2, y2: y - GAP / 2 }));
    parts.push(svg("text", { x: 2, y: y + 14, class: pick ? "lane" : null, click: pick ? () => pick(lane.subject) : null }, svg("title", {}, lane.subject || "the lab"), short(title(lane.subject), names - 12)));
    lane.bars.forEach((bar, number) => {
      const next = lane.bars.find((other, place) => place > number && rows.of[place] === rows.of[number]);
      parts.push(drawn(bar, x, y + rows.of[number] * ROW, now, next ? x(next.began) : end + END, tell));
    });
    y += rows.count * ROW + GAP;
  }
  const label = `Steps of the install: ${lanes.length} lanes, ${lanes.reduce((sum, lane) => sum + lane.bars.length, 0)} steps`;
  const present = ended === null && now < until ? svg("line", { class: "now", x1: x(now), x2: x(now), y1: TOP - 6, y2: y }) : null;
  return svg("svg", { viewBox: `0 0 ${end + END} ${y}`, width: end + END, height: y, role: "img", "aria-label": label }, axis(began, until, x, y, Math.max(2, Math.min(9, room / 55))), present, parts);
}

export function title(subject) {
  return subject ? subject.split("/").slice(1).join("/") || subject : "the lab";
}

export function words(bar, now) {
  const took = seconds((bar.ended ?? now) - bar.began);
  return `${title(bar.subject)}: ${bar.phase}, ${bar.outcome}, ${took}${bar.estimate ? ` of about ${seconds(bar.estimate)}` : ""}${bar.detail ? `, ${bar.detail}` : ""}`;
}

function drawn(bar, x, y, now, free, tell) {
  const from = x(bar.began);
  const width = Math.max(x(bar.ended ?? now) - from, 2);
  const expected = bar.ended === null && bar.estimate && bar.began + bar.estimate > now ? x(bar.began + bar.estimate) : null;
  const later = expected ? svg("rect", { class: "bar-estimate", x: from + width, y: y + 2, width: Math.max(expected - from - width, 1), height: ROW - 4, rx: 2 }) : null;
  const to = expected ?? from + width;
  const said = words(bar, now);
  return svg("g", { pointerenter: tell ? () => tell(said) : null, click: tell ? () => tell(said) : null }, svg("title", {}, said), later,
    svg("rect", { class: `bar-${bar.outcome}`, x: from, y: y + 2, width, height: ROW - 4, rx: 2 }), name(bar, from, to, free, y + 14, now));
}

// Inside the bar, or right of it where nothing else is: a word that is cut off says less than its colour.
function name(bar, from, to, free, y, now) {
  const long = bar.ended === null && bar.estimate ? [`${bar.phase} ${seconds(now - bar.began)} of ~${seconds(bar.estimate)}`] : [];
  const told = [...long, bar.outcome === "failed" ? `${bar.phase} failed` : bar.phase, bar.phase];
  const inside = told.find((one) => wide(one) + 8 <= to - from);
  if (inside) return svg("text", { x: from + 4, y }, inside);
  const beside = told.find((one) => to + wide(one) + 10 <= free);
  return beside ? svg("text", { x: to + 5, y, class: "outside" }, beside) : null;
}

// With at most so many steps as there is room for.
function axis(began, until, x, height, most) {
  const span = until - began;
  const step = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((one) => span / one <= most) ?? 604800;
  const found = [];
  for (let at = 0; at <= span; at += step) {
    found.push(svg("line", { class: "grid", x1: x(began + at), x2: x(began + at), y1: TOP - 6, y2: height }));
    found.push(svg("text", { class: "axis", x: x(began + at) + 2, y: 12 }, step < 60 ? `${at} s` : step < 3600 ? `${at / 60} min` : `${at / 3600} h`));
  }
  return found;
}

// Bars that overlap in time lie below each other.
function stack(bars, end) {
  const free = [];
  const of = bars.map((bar) => {
    let row = free.findIndex((until) => until <= bar.began);
    if (row < 0) row = free.push(0) - 1;
    free[row] = end(bar);
    return row;
  });
  return { of, count: Math.max(free.length, 1) };
}

function short(text, room) {
  if (wide(text) <= room) return text;
  let most = text.length;
  while (most > 1 && wide(`${text.slice(0, most)}…`) > room) most--;
  return `${text.slice(0, most)}…`;
}
