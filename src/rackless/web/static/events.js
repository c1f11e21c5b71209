// The list of events. A step is one row: it appears when the step begins, and is marked when it ends.

import { clock, h, seconds, setText } from "./dom.js";

const MOST_ROWS = 300;
const MARKS = { done: "✓", unchanged: "·", failed: "✗", cancelled: "–", running: "▸", info: "i", warning: "!" };

export class EventList {
  constructor(list, wanted = () => true) {
    this.list = list;
    this.wanted = wanted;
    this.rows = new Map();
  }

  clear() {
    this.rows.clear();
    this.list.replaceChildren();
  }

  add(batch) {
    const fresh = document.createDocumentFragment();
    for (const one of batch) {
      const row = this.take(one);
      if (row) fresh.prepend(row);
    }
    this.list.prepend(fresh);
    while (this.list.childElementCount > MOST_ROWS) {
      const last = this.list.lastElementChild;
      this.rows.delete(last.dataset.step);
      last.remove();
    }
  }

  take(one) {
    if (one.missed) return row("warning", 0, `events ${one.missed.after + 1} to ${one.missed.before - 1} are no longer kept`);
    if (one.event === "step-started") {
      if (!this.wanted(one)) return null;
      const made = row("running", one.at, one.title);
      made.dataset.step = one.step;
      this.rows.set(one.step, made);
      return made;
    }
    if (one.event === "step-finished") {
      const made = this.rows.get(one.step);
      if (!made) return null;
      this.rows.delete(one.step);
      mark(made, one.outcome, one.detail, seconds(one.seconds));
      return null;
    }
    if (one.level === "progress") {
      const made = this.rows.get(one.step);
      if (made) setText(made.querySelector(".detail"), one.message);
      return null;
    }
    return this.wanted(one) ? row(one.level, one.at, one.message) : null;
  }
}

function row(kind, at, text) {
  const made = h("li", {},
    h("span", { class: "sign" }), h("time", {}, at ? clock(at) : ""), h("span", { class: "text" }, text), h("span", { class: "took" }), h("span", { class: "detail" }));
  mark(made, kind, "", "");
  return made;
}

function mark(row, kind, detail, took) {
  row.className = kind;
  const sign = row.querySelector(".sign");
  setText(sign, MARKS[kind] ?? "?");
  sign.title = kind;
  setText(row.querySelector(".took"), took);
  setText(row.querySelector(".detail"), detail);
}
