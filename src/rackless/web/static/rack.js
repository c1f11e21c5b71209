// The rack: what stands where, its power, what it boots from, its host, Machine and node, the networks, who holds the VIP.

import { h, prose, section, setAttribute, setText, show } from "./dom.js";
import { place, store } from "./store.js";

const ROLES = { "control-plane": "Control plane", worker: "Workers", spare: "Spare" };
const FEW = 24;
const REFRESH = 10_000;
const GOOD = new Set(["provisioned", "externally provisioned", "available", "ready"]);

export function rackView(main) {
  const parts = {
    strip: h("div", { class: "strip" }), notes: h("ul", { class: "notes", "aria-label": "Warnings" }), groups: h("div", {}), metal: h("div", {}), networks: h("ul", { class: "networks" }),
  };
  const cards = new Map();
  let taps = new Map();
  const pictures = new Pictures();
  const screens = h("input", { type: "checkbox", id: "screens", change: () => { localStorage.setItem("screens", screens.checked ? "on" : "off"); pictures.show(screens.checked); } });
  const servers = section("Servers", place("rack"), parts.groups, parts.metal);
  servers.querySelector(".json").before(h("label", { class: "switch" }, screens, "screens"));
  show(main, h("h1", { class: "hidden" }, `Rack of ${store.lab}`), parts.strip, parts.notes, servers,
    section("Networks", place("rack"), parts.networks));
  let shape = "";
  let plugged = [];
  let metal = null;

  function update(changed) {
    const rack = store.rack;
    if (!rack) return show(parts.strip, h("p", { class: "quiet figure" }, "Asking the lab …"));
    strip(parts.strip, rack);
    notes(parts.notes, rack);
    const now = JSON.stringify(rack.servers.map((one) => [one.name, one.role]));
    if (now !== shape) {
      shape = now;
      build(parts.groups, rack, cards, pictures);
      const wish = localStorage.getItem("screens");
      screens.checked = wish ? wish === "on" : rack.servers.length <= FEW;
      pictures.show(screens.checked);
      plugged = [];
      changed = null;
    }
    // a part of the rack that did not change is the same value as before
    const wires = [rack.networks, rack.vip, rack.api];
    if (wires.some((one, number) => one !== plugged[number])) {
      plugged = wires;
      changed = null;
      taps = networks(parts.networks, rack);
    }
    for (const one of rack.servers) if (!changed || changed.has(one.name)) {
      dress(cards.get(one.name), one, pictures);
      for (const tap of taps.get(one.name) ?? []) setAttribute(tap, "class", `tap ${one.power ?? "unknown"}`);
    }
    holders(rack, cards);
    if (rack.metal !== metal) {
      metal = rack.metal;
      show(parts.metal, metal.length ? metalGroup(metal) : null);
    }
  }

  update(null);
  return { update, close: () => pictures.close() };
}

function strip(element, rack) {
  const on = rack.servers.filter((one) => one.power === "on").length;
  const wrong = [...rack.servers, ...rack.metal].filter((one) => one.error).length;
  const taken = rack.metal.filter((one) => one.taken).length;
  show(element,
    figure("Lab", rack.daemon, rack.daemon === "running" ? "good" : "bad", rack.domain),
    rack.daemon === "running" ? figure("Servers", `${on} of ${rack.servers.length} on`, wrong ? "bad" : "", wrong ? `${wrong} with errors` : "") : figure("Servers", rack.servers.length, "", "power not known"),
    rack.metal.length ? figure("Metal", `${taken} of ${rack.metal.length} taken`, "", "") : null,
    h("div", { class: "figure" }, h("span", { class: "label" }, "Reached"), stepper(rack.goals)),
    rack.vip ? figure("API VIP", rack.vip.holder ?? "nobody", rack.vip.ready ? "good" : "", rack.vip.address) : null,
    rack.etcd ? figure("etcd", `${rack.etcd.healthy} of ${rack.etcd.members.length}`, rack.etcd.complete ? "good" : "", rack.etcd.leader ? `${rack.etcd.leader} leads` : rack.etcd.detail) : null);
}

function figure(label, value, kind, below) {
  return h("div", { class: `figure ${kind}` }, h("span", { class: "label" }, label), h("span", { class: "value" }, value), below ? h("span", { class: "below" }, below) : null);
}

export function stepper(goals) {
  if (!goals.length) return h("span", { class: "value" }, "–");
  return h("ol", { class: "stepper" }, goals.map((one) => h("li", { class: one.reached ? "done" : "" }, one.name, h("span", { class: "hidden" }, one.reached ? " reached" : " not reached"))));
}

function notes(element, rack) {
  const found = [];
  if (rack.trouble) found.push(["bad", `${rack.trouble.what}${rack.trouble.why ? `: ${rack.trouble.why}` : ""}`]);
  if (rack.daemon !== "running") found.push(["bad", "The lab's daemon does not run: power and states are not known. `rackless up` starts it."]);
  for (const one of [...rack.servers, ...rack.metal]) if (one.error) found.push(["bad", `${one.name}: ${one.error}`]);
  for (const one of rack.faults) found.push(["warn", `fault ${one.id}: ${one.text}`]);
  for (const one of rack.parts) {
    if (!one.running) found.push(["bad", `${one.name} is not running: ${one.reason}`]);
    else if (one.restarts) found.push(["warn", `${one.name} was started again (${one.restarts}): ${one.reason}`]);
  }
  if (rack.cut_off.length) found.push(["warn", `the last \`rackless up\` was cut off at: ${rack.cut_off.slice(0, 3).join(", ")}`]);
  for (const one of rack.warnings) found.push(["warn", one]);
  const most = 12;
  show(element, found.slice(0, most).map(([kind, text]) => h("li", { class: kind }, prose(text))), found.length > most ? h("li", { class: "warn" }, `and ${found.length - most} more`) : null);
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

function serverPlace(name) {
  return `#/${encodeURIComponent(store.lab)}/server/${encodeURIComponent(name)}`;
}

function card(one, cards, pictures) {
  const parts = {
    led: h("span", { class: "led" }), power: h("span", { class: "hidden" }), host: h("span", { class: "state-word" }), node: h("span", { class: "node" }), machine: h("span", { class: "node" }), boot: h("span", { class: "boot" }), media: h("span", { class: "media" }),
    vip: h("span", { class: "vip", hidden: true }, "VIP"), error: h("span", { class: "error" }),
    screen: h("img", { class: "screen", alt: "", hidden: true }),
  };
  parts.item = h("li", { class: "server" },
    h("a", { href: serverPlace(one.name), class: "unit" }, h("span", { class: "words" },
      h("span", { class: "row" }, parts.led, h("span", { class: "name" }, one.name), parts.power, parts.vip, h("span", { class: "grow" }), parts.host),
      h("span", { class: "row small" }, h("span", {}, one.address), h("span", { class: "grow" }), parts.node),
      h("span", { class: "row small from" }, parts.boot, parts.media, h("span", { class: "grow" }), parts.machine),
      parts.error), parts.screen));
  cards.set(one.name, parts);
  pictures.add(one.name, parts);
  return parts.item;
}

// Servers that the lab did not make: they have a BMC and a record, and neither screen nor console here.
function metalGroup(metal) {
  return h("div", { class: "group" }, h("h3", {}, "Metal", h("span", { class: "count" }, metal.length)), h("ul", { class: "servers" }, metal.map((one) => {
    const power = one.power ?? "unknown";
    return h("li", { class: "server metal" }, h("a", { href: `#/${encodeURIComponent(store.lab)}/objects/hosts/${encodeURIComponent(one.name)}`, class: "unit" }, h("span", { class: "words" },
      h("span", { class: "row" }, h("span", { class: `led ${power}` }), h("span", { class: "name" }, one.name), h("span", { class: "hidden" }, `power ${power}`), h("span", { class: "grow" }), h("span", { class: stateClass(one) }, one.taken ? one.host ?? "" : "not taken")),
      h("span", { class: "row small" }, h("span", {}, bmcOf(one.bmc)), h("span", { class: "grow" }), h("span", { class: "node" }, one.node ? `node ${one.node}` : "")),
      h("span", { class: "row small" }, h("span", {}, one.mac), h("span", { class: "grow" }), h("span", { class: "node" }, machineWords(one))),
      one.taken ? null : h("span", { class: "row small from" }, `rackless host take ${one.name}`),
      h("span", { class: "error" }, one.error))));
  })));
}

function bmcOf(url) {
  return `BMC ${url.replace(/^[a-z0-9+-]+:\/\//, "").split("/")[0]}`;
}

function stateClass(one) {
  return `state-word ${one.error ? "bad" : GOOD.has(one.host) ? "good" : one.host && one.taken !== false ? "busy" : ""}`;
}

function machineWords(one) {
  return one.machine === null ? "" : `Machine ${one.machine || "new"}`;
}

function dress(parts, one, pictures) {
  if (!parts) return;
  const power = one.power ?? "unknown";
  setAttribute(parts.led, "class", `led ${power}`);
  setText(parts.power, `power ${power}`);
  setText(parts.host, one.host ?? "");
  setAttribute(parts.host, "class", stateClass(one));
  setText(parts.node, one.node ? `node ${one.node}` : "");
  setText(parts.machine, machineWords(one));
  setText(parts.boot, bootWords(one));
  setAttribute(parts.boot, "class", `boot ${one.boot_once ? "once" : ""}`);
  setText(parts.media, one.media ? `CD ${fileOf(one.media)}` : "");
  setAttribute(parts.media, "title", one.media ?? "");
  setText(parts.error, one.error);
  pictures.power(one.name, one.power === "on");
}

export function bootWords(one) {
  return one.boot ? `boots ${one.boot}${one.boot_once ? " once" : ""}` : "";
}

function fileOf(url) {
  return url.split(/[?#]/)[0].split("/").filter(Boolean).pop() ?? url;
}

function holders(rack, cards) {
  const holding = new Set(rack.vip?.holders ?? []);
  for (const [name, parts] of cards) parts.vip.hidden = !holding.has(name);
}

// Each network is a line; on it what answers, and every server that is plugged in. Answers with the taps of each server.
function networks(element, rack) {
  const taps = new Map();
  const many = rack.servers.length > FEW;
  show(element, rack.networks.map((one, number) => h("li", { class: `network n${number % 6}` },
    h("div", { class: "plate" }, h("span", { class: "name" }, one.name), h("code", {}, one.cidr || "no address of its own"), h("span", { class: "quiet" }, one.bridge),
      h("span", { class: "grow" }), services(one, rack).map((service) => h("span", { class: "chip" }, service))),
    h("ul", { class: `wire ${many ? "dense" : ""}`, "aria-label": `Plugged into ${one.name}` },
      one.name === "cluster" ? vips(rack).map(([title, address, holder]) => h("li", { class: "plug" }, h("span", { class: "tap vip-tap" }), h("span", {}, title, h("span", { class: "where" }, holder ? `${address} at ${holder}` : address)))) : null,
      one.plugs.map((plug) => {
        const tap = h("span", { class: "tap" });
        taps.set(plug.server, [...(taps.get(plug.server) ?? []), tap]);
        const words = `${plug.server} ${plug.address}`;
        return h("li", { class: "plug" }, h("a", { href: serverPlace(plug.server), title: words, "aria-label": many ? words : null }, tap, many ? null : h("span", {}, plug.server, h("span", { class: "where" }, plug.address || "no lease of ours"))));
      })))));
  return taps;
}

function services(one, rack) {
  if (one.name !== "cluster" || !rack.api) return one.services;
  return [...one.services, `lab API ${rack.api.inside.replace(/^https:\/\//, "")}`];
}

function vips(rack) {
  const found = [["API VIP", rack.vips.api, rack.vip?.holders?.join(" and ")], ["Ingress VIP", rack.vips.ingress, null]];
  return found.filter(([, address]) => address);
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
        if (answer.status === 403) { this.refused = true; return; } // asked no more
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
