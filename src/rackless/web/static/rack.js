// The rack: what stands where, its power, its host and node, the networks, who holds the VIP.

import { h, section, setAttribute, setText, show } from "./dom.js";
import { place, store } from "./store.js";

const ROLES = { "control-plane": "Control plane", worker: "Workers", spare: "Spare" };
const FEW = 24;
const REFRESH = 10_000;
const GOOD = new Set(["provisioned", "externally provisioned", "available", "ready"]);

export function rackView(main) {
  const parts = {
    strip: h("div", { class: "strip" }), notes: h("ul", { class: "notes", "aria-label": "Warnings" }), groups: h("div", {}), networks: h("ul", { class: "networks" }),
  };
  const cards = new Map();
  const pictures = new Pictures();
  const screens = h("input", { type: "checkbox", id: "screens", change: () => { localStorage.setItem("screens", screens.checked ? "on" : "off"); pictures.show(screens.checked); } });
  show(main, h("h1", { class: "hidden" }, `Rack of ${store.lab}`), parts.strip, parts.notes,
    section("Servers", place("rack"), h("label", { class: "switch" }, screens, " screens"), parts.groups),
    section("Networks", null, parts.networks));
  let shape = "";

  function update(changed) {
    const rack = store.rack;
    if (!rack) return show(parts.strip, h("p", { class: "quiet" }, "Asking the lab …"));
    strip(parts.strip, rack);
    notes(parts.notes, rack);
    const now = JSON.stringify(rack.servers.map((one) => [one.name, one.role]));
    if (now !== shape) {
      shape = now;
      build(parts.groups, rack, cards, pictures);
      const wish = localStorage.getItem("screens");
      screens.checked = wish ? wish === "on" : rack.servers.length <= FEW;
      pictures.show(screens.checked);
      networks(parts.networks, rack);
      changed = null;
    }
    for (const one of rack.servers) if (!changed || changed.has(one.name)) dress(cards.get(one.name), one, pictures);
    holders(rack, cards);
  }

  update(null);
  return { update, close: () => pictures.close() };
}

function strip(element, rack) {
  const reached = rack.stages.filter((one) => one.reached).length;
  const on = rack.servers.filter((one) => one.power === "on").length;
  const wrong = rack.servers.filter((one) => one.error).length;
  show(element,
    figure("Lab", rack.daemon, rack.daemon === "running" ? "good" : "bad", rack.domain),
    figure("Servers", `${on} of ${rack.servers.length} on`, wrong ? "bad" : "", wrong ? `${wrong} with errors` : ""),
    h("div", { class: "figure" }, h("span", { class: "label" }, "Reached"), stepper(rack.stages, reached)),
    rack.vip ? figure("API VIP", rack.vip.holder ?? "nobody", rack.vip.ready ? "good" : "", rack.vip.address) : null,
    rack.etcd ? figure("etcd", `${rack.etcd.healthy} of ${rack.etcd.members.length}`, rack.etcd.complete ? "good" : "", rack.etcd.leader ? `${rack.etcd.leader} leads` : rack.etcd.detail) : null);
}

function figure(label, value, kind, below) {
  return h("div", { class: `figure ${kind}` }, h("span", { class: "label" }, label), h("span", { class: "value" }, value), below ? h("span", { class: "below" }, below) : null);
}

export function stepper(stages) {
  if (!stages.length) return h("span", { class: "value" }, "–");
  return h("ol", { class: "stepper" }, stages.map((one) => h("li", { class: one.reached ? "done" : "" }, one.name, h("span", { class: "hidden" }, one.reached ? " reached" : " not reached"))));
}

function notes(element, rack) {
  const found = [];
  if (rack.trouble) found.push(["bad", `${rack.trouble.what}${rack.trouble.why ? `: ${rack.trouble.why}` : ""}`]);
  if (rack.daemon !== "running") found.push(["bad", "The lab's daemon does not run: power and states are not known. `rackless up` starts it."]);
  for (const one of rack.servers) if (one.error) found.push(["bad", `${one.name}: ${one.error}`]);
  for (const one of rack.faults) found.push(["warn", `fault ${one.id}: ${one.text}`]);
  for (const one of rack.parts) {
    if (!one.running) found.push(["bad", `${one.name} is not running: ${one.reason}`]);
    else if (one.restarts) found.push(["warn", `${one.name} was started again (${one.restarts}): ${one.reason}`]);
  }
  if (rack.cut_off.length) found.push(["warn", `the last \`rackless up\` was cut off at: ${rack.cut_off.slice(0, 3).join(", ")}`]);
  for (const one of rack.warnings) found.push(["warn", one]);
  const most = 12;
  show(element, found.slice(0, most).map(([kind, text]) => h("li", { class: kind }, text)), found.length > most ? h("li", { class: "warn" }, `and ${found.length - most} more`) : null);
  element.hidden = !found.length;
}

function build(element, rack, cards, pictures) {
  cards.clear();
  pictures.clear();
  const roles = [...new Set(rack.servers.map((one) => one.role))];
  element.classList.toggle("many", rack.servers.length > FEW);
  show(element, roles.map((role) => {
    const mine = rack.servers.filter((one) => one.role === role);
    return h("div", { class: "group" }, h("h3", {}, ROLES[role] ?? role, h("span", { class: "count" }, mine.length)),
      h("ul", { class: "servers" }, mine.map((one) => card(one, cards, pictures))));
  }));
}

function card(one, cards, pictures) {
  const parts = {
    led: h("span", { class: "led" }), power: h("span", { class: "hidden" }), host: h("span", { class: "state-word" }), node: h("span", { class: "node" }),
    vip: h("span", { class: "vip", hidden: true }, "VIP"), error: h("span", { class: "error" }),
    screen: h("img", { class: "screen", alt: "", hidden: true }),
  };
  const address = `#/${encodeURIComponent(store.lab)}/server/${encodeURIComponent(one.name)}`;
  parts.item = h("li", { class: "server" },
    h("a", { href: address, class: "unit" }, h("span", { class: "words" },
      h("span", { class: "row" }, parts.led, h("span", { class: "name" }, one.name), parts.power, parts.vip, h("span", { class: "grow" }), parts.host),
      h("span", { class: "row small" }, h("span", {}, one.address), h("span", { class: "grow" }), parts.node),
      parts.error), parts.screen));
  cards.set(one.name, parts);
  pictures.add(one.name, parts);
  return parts.item;
}

function dress(parts, one, pictures) {
  if (!parts) return;
  const power = one.power ?? "unknown";
  setAttribute(parts.led, "class", `led ${power}`);
  setText(parts.power, `power ${power}`);
  setText(parts.host, one.host ?? "");
  setAttribute(parts.host, "class", `state-word ${one.error ? "bad" : GOOD.has(one.host) ? "good" : one.host ? "busy" : ""}`);
  setText(parts.node, one.node ? "node up" : "");
  setText(parts.error, one.error);
  pictures.power(one.name, one.power === "on");
}

function holders(rack, cards) {
  const holding = new Set(rack.vip?.holders ?? []);
  for (const [name, parts] of cards) parts.vip.hidden = !holding.has(name);
}

function networks(element, rack) {
  show(element, rack.networks.map((one, number) => h("li", { class: `network n${number % 6}` },
    h("span", { class: "wire", "aria-hidden": "true" }), h("span", { class: "name" }, one.name), h("code", {}, one.cidr || "no address of its own"),
    h("span", { class: "quiet" }, one.bridge), one.services.map((service) => h("span", { class: "chip" }, service)))));
}

// Pictures of screens: only of servers that are on and in view, one after the other.
export class Pictures {
  constructor() {
    this.wanted = false;
    this.known = new Map();
    this.seen = new Set();
    this.timer = setInterval(() => this.refresh(), REFRESH);
    this.busy = false;
    this.refused = false;
    this.observer = new IntersectionObserver((found) => {
      for (const one of found) one.isIntersecting ? this.seen.add(one.target.dataset.server) : this.seen.delete(one.target.dataset.server);
      this.refresh();
    });
  }

  add(name, parts) {
    parts.item.dataset.server = name;
    this.known.set(name, { parts, on: false, url: "" });
    this.observer.observe(parts.item);
  }

  power(name, on) {
    const mine = this.known.get(name);
    if (!mine || mine.on === on) return;
    mine.on = on;
    if (!on) mine.parts.screen.hidden = true;
    else this.refresh();
  }

  show(wanted) {
    this.wanted = wanted;
    for (const { parts, url } of this.known.values()) parts.screen.hidden = !wanted || !url;
    this.refresh();
  }

  async refresh() {
    if (this.busy || !this.wanted || this.refused || document.hidden) return;
    this.busy = true;
    try {
      for (const name of [...this.seen]) {
        const mine = this.known.get(name);
        if (!mine?.on || !this.wanted) continue;
        const answer = await fetch(place("servers", name, "screen"));
        if (answer.status === 403) { this.refused = true; return; } // only root sees screens
        if (!answer.ok) continue;
        const url = URL.createObjectURL(await answer.blob());
        if (mine.url) URL.revokeObjectURL(mine.url);
        mine.url = url;
        mine.parts.screen.src = url;
        mine.parts.screen.hidden = !this.wanted;
      }
    } catch { /* the line is away: the next round tries again */ } finally { this.busy = false; }
  }

  clear() {
    for (const { url } of this.known.values()) if (url) URL.revokeObjectURL(url);
    this.observer.disconnect();
    this.known.clear();
    this.seen.clear();
  }

  close() {
    clearInterval(this.timer);
    this.clear();
    this.wanted = false;
  }
}
