// A swim-lane chart as SVG: a lane for each subject, a bar for each step, dashed where it will probably end.

import { clock, seconds, svg } from "./dom.js";

const ROW = 20;
const GAP = 6;
const TOP = 22;
const LETTER = 6.8; // pixels, of the widest of the usual fonts

// `pick` hears the subject of a lane that was chosen.
export function chart({ lanes, began, ended }, now, width, pick = null) {
  const until = Math.max(ended ?? now, began + 1, ...lanes.flatMap((lane) => lane.bars.map((bar) => (bar.ended === null && bar.estimate ? bar.began + bar.estimate : 0))));
  const names = Math.min(130, 14 + 7 * Math.max(...lanes.map((lane) => laneTitle(lane.subject).length)));
  const wide = Math.max(width - names - 28, 240);
  const x = (at) => names + ((at - began) / (until - began)) * wide;
  const parts = [];
  let y = TOP;
  for (const lane of lanes) {
    const rows = stack(lane.bars, (bar) => bar.ended ?? until);
    const height = rows.count * ROW;
    parts.push(svg("line", { class: "rule", x1: 0, x2: names + wide, y1: y - GAP / 2, y2: y - GAP / 2 }));
    parts.push(svg("text", { x: 2, y: y + 14, class: pick ? "lane" : null, click: pick ? () => pick(lane.subject) : null }, svg("title", {}, lane.subject || "the lab"), short(laneTitle(lane.subject), 19)));
    lane.bars.forEach((bar, number) => parts.push(drawn(bar, x, y + rows.of[number] * ROW, now)));
    y += height + GAP;
  }
  const label = `Steps of the install from ${clock(began)}: ${lanes.length} lanes, ${lanes.reduce((sum, lane) => sum + lane.bars.length, 0)} steps`;
  return svg("svg", { viewBox: `0 0 ${names + wide + 28} ${y}`, width: names + wide + 28, height: y, role: "img", "aria-label": label }, axis(began, until, x, y), parts);
}

export function title(subject) {
  return subject ? subject.split("/").slice(1).join("/") || subject : "the lab";
}

// A server's node has a lane beside its host's.
function laneTitle(subject) {
  return subject.startsWith("node/") ? `${title(subject)} (node)` : title(subject);
}

function drawn(bar, x, y, now) {
  const from = x(bar.began);
  const to = x(bar.ended ?? now);
  const width = Math.max(to - from, 2);
  const took = (bar.ended ?? now) - bar.began;
  const words = `${bar.phase}: ${bar.outcome}, ${seconds(took)}${bar.estimate ? ` of about ${seconds(bar.estimate)}` : ""}${bar.detail ? `, ${bar.detail}` : ""}`;
  const later = bar.ended === null && bar.estimate && bar.began + bar.estimate > now ? svg("rect", { class: "bar-estimate", x: to, y: y + 2, width: x(bar.began + bar.estimate) - to, height: ROW - 4, rx: 2 }) : null;
  const wide = later ? x(bar.began + bar.estimate) - from : width;
  const room = Math.floor((wide - 6) / LETTER);
  const name = bar.ended === null && bar.estimate ? `${bar.phase} ${seconds(took)} of ~${seconds(bar.estimate)}` : bar.phase;
  return svg("g", {}, svg("title", {}, words), later, svg("rect", { class: `bar-${bar.outcome}`, x: from, y: y + 2, width, height: ROW - 4, rx: 2 }),
    room > 3 ? svg("text", { x: from + 4, y: y + 14 }, short(name, room)) : null);
}

function axis(began, until, x, height) {
  const span = until - began;
  const step = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((one) => span / one <= 9) ?? 604800;
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

function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
