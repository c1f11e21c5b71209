// One server: its power, console, screen, hardware, host, faults and events.

import { act, complain, confirm } from "./ask.js";
import { bytes, facts, h, section, setAttribute, setText, show } from "./dom.js";
import { EventList } from "./events.js";
import { get, place, store } from "./store.js";
import { Terminal } from "./terminal.js";

const TROUBLES = ["delay", "refuse", "drop", "wrong-password", "stuck-power", "failing-media", "slow-download"];
const OPERATIONS = ["", "read", "login", "power", "boot", "media", "other"];
const POWER = [["on", "On", false], ["shutdown", "Shut down", true], ["cycle", "Cycle", true], ["off", "Off", true]];
const HOST = [["inspect", "Inspect"], ["retry", "Retry"], ["clean", "Clean"], ["deprovision", "Deprovision"]];
const REFRESH = 5000;

export function serverView(main, name) {
  const led = h("span", { class: "led" });
  const power = h("span", { class: "quiet" });
  const said = h("p", { class: "quiet", role: "status" });
  const terminal = new Terminal(name, (text) => setText(said, text));
  const screen = h("img", { class: "screen", alt: `Screen of ${name}`, hidden: true });
  const noScreen = h("p", { class: "quiet" }, "No picture yet.");
  const parts = { hardware: h("div", {}), host: h("div", {}), faults: h("div", {}) };
  const list = h("ol", { class: "events short", tabindex: "0", "aria-label": `Events of ${name}` });
  const events = new EventList(list, (one) => one.subject?.split("/")[1] === name || Object.values(one.values ?? {}).includes(name));
  events.add(store.events);

  show(main,
    h("div", { class: "title" }, h("a", { href: `#/${encodeURIComponent(store.lab)}/rack`, "aria-label": "Back to the rack" }, "←"), led, h("h1", {}, name), power, h("span", { class: "grow" }),
      h("div", { class: "buttons changes", role: "group", "aria-label": "Power" }, POWER.map(([action, title, asks]) => h("button", { type: "button", disabled: store.readOnly, click: () => press(action, title, asks) }, title)))),
    section("Console", null, terminal.element, said),
    h("div", { class: "pair" },
      section("Screen", null, screen, noScreen),
      section("Hardware", place("servers", name), parts.hardware)),
    h("div", { class: "pair" }, section("Host", null, parts.host), section("Faults at its BMC", null, parts.faults, faultForm())),
    section("Events of this server", `${place("events")}?since=0&hear=${encodeURIComponent(`host/${name}`)}&hear=${encodeURIComponent(`server/${name}`)}`, list));

  async function press(action, title, asks) {
    if (asks && !(await confirm(`${title} ${name}?`, title))) return;
    await act(place("servers", name, "power"), { action }, (answer) => `${name} is ${answer.power ?? "unknown"}`);
  }

  async function askHost(verb, title) {
    if (verb !== "retry" && !(await confirm(`${title} the host ${name}?`, title))) return;
    await act(place("servers", name, "host"), { verb }, (answer) => `${name}: ${answer.state}`);
    look();
  }

  function faultForm() {
    const trouble = h("select", {}, TROUBLES.map((one) => h("option", {}, one)));
    const operation = h("select", {}, OPERATIONS.map((one) => h("option", { value: one }, one || "every")));
    const count = h("input", { type: "number", min: 1, placeholder: "for ever" });
    return h("form", {
      class: "form", submit: async (event) => {
        event.preventDefault();
        await act(place("faults"), { trouble: trouble.value, server: name, operation: operation.value || null, count: count.value ? Number(count.value) : null }, (one) => `fault ${one.id}: ${one.text}`);
        look();
      },
    }, h("label", {}, "trouble", trouble), h("label", {}, "operation", operation), h("label", {}, "how often", count),
      h("button", { disabled: store.readOnly }, "Let it happen"));
  }

  async function look() {
    try {
      const found = await get(place("servers", name));
      hardware(parts.hardware, found);
      host(found);
      faults(found.faults);
    } catch (error) {
      complain(error);
    }
  }

  function host(found) {
    const record = found.host;
    const status = record?.status ?? {};
    show(parts.host, facts([
      ["State", found.server?.host ?? "not registered"], ["Error", found.server?.error], ["Node", found.server?.node],
      ["Powered on", status.poweredOn === undefined ? null : String(status.poweredOn)], ["Image", record?.spec?.image?.url], ["Held by", record?.spec?.consumerRef?.name],
      ["Tries after errors", status.errorCount || null],
    ]), h("div", { class: "buttons form" }, HOST.map(([verb, title]) => h("button", { type: "button", disabled: store.readOnly || !record, click: () => askHost(verb, title) }, title))));
  }

  function faults(found) {
    show(parts.faults, found.length ? h("ul", { class: "notes" }, found.map((one) => h("li", { class: "warn" }, `fault ${one.id}: ${one.text} `,
      h("button", { type: "button", disabled: store.readOnly, click: async () => { await act(place("faults", "clear"), { ids: [one.id] }, "taken away"); look(); } }, "Take away")))) : h("p", { class: "quiet" }, "None was asked for."));
  }

  let url = "";
  async function picture() {
    if (document.hidden || now()?.power !== "on") { screen.hidden = true; noScreen.hidden = false; return; }
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
  const timer = setInterval(picture, REFRESH);

  function now() {
    return store.rack?.servers.find((one) => one.name === name);
  }

  let state = null;
  function update() {
    const one = now();
    setAttribute(led, "class", `led ${one?.power ?? "unknown"}`);
    setText(power, one ? `${one.power ?? "power not known"} · ${one.role} · ${one.address}` : "");
    const seen = JSON.stringify([one, store.rack?.faults]);
    if (seen !== state && store.rack) {
      state = seen;
      look();
      picture();
    }
  }
  update();

  return {
    update, happened: (batch) => events.add(batch),
    close: () => { terminal.close(); clearInterval(timer); if (url) URL.revokeObjectURL(url); },
  };
}

function hardware(element, { hardware: it, server }) {
  show(element,
    facts([["CPUs", it.vcpus], ["Memory", `${it.memory_mib} MiB`], ["Disks", it.disks.map(bytes).join(", ")], ["Firmware", it.firmware + (it.secure_boot ? ", Secure Boot" : "") + (it.tpm ? ", TPM" : "")],
      ["Name", it.fqdn], ["BMC", h("code", {}, it.bmc_url)], ["BMC at", server ? h("code", {}, server.bmc) : null], ["UUID", h("code", {}, it.uuid)]]),
    h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Network cards" }, h("table", {}, h("caption", { class: "hidden" }, "Network cards"), h("thead", {}, h("tr", {}, ["Network", "MAC", "Address", "Bridge"].map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, it.nics.map((nic) => h("tr", {}, h("td", {}, nic.network), h("td", {}, h("code", {}, nic.mac)), h("td", {}, h("code", {}, nic.address)), h("td", {}, nic.bridge)))))));
}
