// One server: its power, console, screen, hardware, BMC, host, timeline and events.

import { act, complain, confirm } from "./ask.js";
import { BmcPanel } from "./bmc.js";
import { chart } from "./chart.js";
import { facts, h, section, setAttribute, setText, show, span } from "./dom.js";
import { EventList } from "./events.js";
import { hardware } from "./hardware.js";
import { bootWords } from "./rack.js";
import { get, place, store } from "./store.js";
import { Terminal } from "./terminal.js";

// what is asked, its button, and what somebody is to agree to first
const POWER = [
  ["on", "On", null],
  ["shutdown", "Shut down", (name) => `Ask the system of ${name} to shut down?`],
  ["cycle", "Cycle", (name) => `Pull the plug of ${name}, and put it in again?`],
  ["reset", "Reset", (name) => `Press the reset button of ${name}?`],
  ["off", "Off", (name) => `Pull the plug of ${name}?`],
];
const HOST = [
  ["inspect", "Inspect", (name) => `Restart ${name}, and read its hardware again?`],
  ["retry", "Retry", null],
  ["clean", "Clean", (name) => `Erase the disks of ${name}?`],
  ["deprovision", "Deprovision", (name) => `Take the system off ${name}?`],
];
const REFRESH = 5000;
const AGAIN = 1000;

export function serverView(main, name) {
  const led = h("span", { class: "led" });
  const power = h("span", { class: "quiet" });
  const said = h("p", { class: "quiet", role: "status" });
  const terminal = new Terminal(name, (text) => setText(said, text));
  const screen = h("img", { class: "screen", alt: `Screen of ${name}`, hidden: true });
  const noScreen = h("p", { class: "quiet" }, "No picture yet.");
  const parts = { hardware: h("div", {}), host: h("div", {}), timeline: h("div", { class: "chart", tabindex: "0", role: "region", "aria-label": "Chart of its steps" }), left: h("p", { class: "left" }), told: h("p", { class: "told quiet" }) };
  const bmc = new BmcPanel(name);
  const list = h("ol", { class: "events short", tabindex: "0", "aria-label": `Events of ${name}` });
  const events = new EventList(list, (one) => one.subject?.split("/")[1] === name || Object.values(one.values ?? {}).includes(name));
  events.add(store.events);

  show(main,
    h("div", { class: "title" }, h("a", { href: `#/${encodeURIComponent(store.lab)}/rack`, "aria-label": "Back to the rack" }, "←"), led, h("h1", {}, name), power, h("span", { class: "grow" }),
      h("div", { class: "buttons changes", role: "group", "aria-label": "Power" }, POWER.map(([action, title, question]) => h("button", { type: "button", disabled: store.readOnly, click: () => press(action, title, question) }, title)))),
    section("Console", place("servers", name, "console"), terminal.element, said),
    h("div", { class: "pair" },
      section("Screen", place("servers", name, "screen"), screen, noScreen),
      section("Hardware", place("servers", name), parts.hardware)),
    bmc.element,
    h("div", { class: "pair" }, section("Host", place("objects", "hosts", name), parts.host), section("Timeline", place("servers", name, "timeline"), parts.left, parts.timeline, parts.told)),
    section("Events of this server", `${place("events")}?since=0&hear=${encodeURIComponent(`host/${name}`)}&hear=${encodeURIComponent(`server/${name}`)}&hear=${encodeURIComponent(`node/${name}`)}`, list));

  async function press(action, title, question) {
    if (question && !(await confirm(question(name), title))) return;
    await act(place("servers", name, "power"), { action }, ({ power }) => `${name} is ${power ?? "not known to libvirt"}${action === "shutdown" && power !== "off" ? ": its system was asked to shut down" : ""}`);
  }

  async function askHost(verb, title, question) {
    if (question && !(await confirm(question(name), title))) return;
    await act(place("servers", name, "host"), { verb }, (answer) => `${name}: ${answer.state}`);
    look();
  }

  let drawn = "";
  async function look() {
    try {
      const found = await get(place("servers", name));
      if (closed) return;
      // a button that counts down, or a number that somebody types, is not drawn over
      const made = JSON.stringify([found.hardware, found.disks, found.host?.status?.hardware]);
      if (made !== drawn) hardware(parts.hardware, found, name);
      drawn = made;
      host(found);
    } catch (error) {
      complain(error);
    }
  }

  function host(found) {
    const record = found.host;
    const status = record?.status ?? {};
    show(parts.host, facts([
      ["State", found.server?.host ?? "not registered"], ["Error", found.server?.error], ["Machine", found.server?.machine === null ? null : found.server?.machine], ["Node", found.server?.node],
      ["Powered on", status.poweredOn === undefined ? null : String(status.poweredOn)], ["Image", record?.spec?.image?.url], ["Held by", record?.spec?.consumerRef?.name],
      ["Tries after errors", status.errorCount || null],
    ]), h("div", { class: "buttons form" }, HOST.map(([verb, title, question]) => h("button", { type: "button", disabled: store.readOnly || !record, click: () => askHost(verb, title, question) }, title))));
  }

  let steps = null;
  async function story() {
    waiting = 0;
    try {
      steps = await get(place("servers", name, "timeline"));
      if (!closed) draw();
    } catch { /* the next time */ }
  }

  function draw() {
    if (!steps) return;
    if (!steps.lanes.length) return show(parts.timeline, h("p", { class: "quiet" }, "No step of it is in the lab's log."));
    const now = Date.now() / 1000;
    setText(parts.left, steps.expected !== null && steps.expected > now ? `what goes on now ends in about ${span(steps.expected - now)}` : "");
    show(parts.timeline, chart(steps, now, parts.timeline.clientWidth || 500, { tell: (text) => setText(parts.told, text) }));
  }

  let url = "";
  async function picture() {
    const power = now()?.power;
    if (document.hidden || power !== "on") {
      setText(noScreen, power ? `It is ${power}.` : "Whether it is on is not known.");
      screen.hidden = true;
      noScreen.hidden = false;
      return;
    }
    try {
      const answer = await fetch(place("servers", name, "screen"));
      if (!answer.ok) { setText(noScreen, (await answer.json()).error.what); return; }
      const made = URL.createObjectURL(await answer.blob());
      if (url) URL.revokeObjectURL(url);
      url = made;
      screen.src = made;
      screen.hidden = false;
      noScreen.hidden = true;
    } catch { /* the next time */ }
  }
  const timers = [setInterval(picture, REFRESH), setInterval(() => { if (steps && steps.ended === null && !document.hidden) draw(); }, AGAIN)];
  let waiting = setTimeout(story, 0);
  let closed = false;

  function now() {
    return store.rack?.servers.find((one) => one.name === name);
  }

  let state = null;
  let powered = null;
  function update() {
    const one = now();
    if (!one && store.rack?.daemon === "running") {
      close();
      return show(main, h("p", { class: "empty" }, `The lab ${store.lab} has no server ${name}. `, h("a", { href: `#/${encodeURIComponent(store.lab)}/rack` }, "What it has")));
    }
    setAttribute(led, "class", `led ${one?.power ?? "unknown"}`);
    if (one?.power !== powered) terminal.power((powered = one?.power));
    setText(power, one ? [one.power ?? "power not known", one.role, one.address, bootWords(one)].filter(Boolean).join(" · ") : "");
    const seen = JSON.stringify([one, store.rack?.faults]);
    if (seen !== state && store.rack) {
      state = seen;
      look();
      bmc.look();
      picture();
    }
  }
  function close() {
    closed = true;
    terminal.close();
    bmc.close();
    timers.forEach(clearInterval);
    clearTimeout(waiting);
    if (url) URL.revokeObjectURL(url);
  }
  update();

  return {
    update,
    happened: (batch) => { events.add(batch); if (!closed && !waiting && batch.some((one) => one.event?.startsWith("step"))) waiting = setTimeout(story, AGAIN); },
    close,
  };
}
