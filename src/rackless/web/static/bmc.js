// A server's BMC: where it answers, what the next start is from, its drive, its sensors, who asked it for what, faults on demand.

import { act, confirm } from "./ask.js";
import { day, facts, h, section, show, table } from "./dom.js";
import { get, place, store } from "./store.js";

const TROUBLES = ["delay", "refuse", "drop", "wrong-password", "stuck-power", "failing-media", "slow-download"];
const OPERATIONS = ["", "read", "login", "power", "boot", "media", "other"];
const DEVICES = ["disk", "cdrom", "network", "setup"];
const REFRESH = 10_000;

export class BmcPanel {
  constructor(name) {
    this.name = name;
    this.parts = { stands: h("div", {}), sensors: h("div", {}), audit: h("div", {}), log: h("div", {}), faults: h("div", {}) };
    const mine = place("servers", name, "bmc");
    this.element = h("div", { class: "stack" },
      h("div", { class: "pair" },
        section("BMC", mine, this.parts.stands, this.bootForm(), this.mediaForm()),
        section("Sensors", mine, this.parts.sensors)),
      h("div", { class: "pair" },
        section("Faults at its BMC", place("faults"), this.parts.faults, this.faultForm()),
        section("Log of its BMC", mine, this.parts.log)),
      section("Asked of its BMC", mine, this.parts.audit));
    this.shown = {};
    this.timer = setInterval(() => this.look(), REFRESH);
  }

  async look() {
    if (document.hidden || this.closed) return;
    try {
      const found = await get(place("servers", this.name, "bmc"));
      if (!this.closed) this.take(found);
    } catch (error) {
      this.put("stands", error.message, () => h("p", { class: "quiet" }, error.message));
    }
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
  }

  // Only what is different is drawn again: somebody may be reading, or about to press a button.
  put(part, value, draw) {
    const text = JSON.stringify(value);
    if (this.shown[part] === text) return;
    this.shown[part] = text;
    show(this.parts[part], draw());
  }

  take(found) {
    const { seen } = found;
    this.put("stands", [found.redfish, found.ipmi_port, found.username, seen, found.trouble], () => facts([
      ["Redfish", found.redfish ? h("code", {}, found.redfish) : "none"], ["IPMI", found.ipmi_port ? h("code", {}, `${found.address}:${found.ipmi_port}`) : "none"], ["User", found.username],
      ["Power", seen ? seen.power ?? "not known" : "nobody answers for it"],
      ["Next start", seen ? (seen.boot === "none" ? `${seen.first ?? "as it is set"}, as its firmware is set` : `${seen.boot}, ${seen.once ? "once" : "always"}`) : null],
      ["Drive", seen ? seen.media ?? "empty" : null], ["Trouble", found.trouble?.what],
    ]));
    this.put("sensors", found.sensors, () => (found.sensors.length ? table("Sensors", ["Sensor", "Reading", "Limits"], found.sensors.map((one) => [one.name, one.value === null ? "–" : `${one.value} ${one.unit}`, limits(one)])) : h("p", { class: "quiet" }, "Nothing can be read.")));
    this.put("audit", found.audit, () => (found.audit.length ? table("Asked of its BMC", ["At", "Who", "What", ""], found.audit.map((one) => [
      h("time", {}, day(one.at)), `${one.user ?? "nobody"} from ${one.client}, ${one.protocol}`, h("td", { class: "long" }, [one.action, ...Object.values(one.details)].join(" ")), h("td", { class: one.ok ? "true" : "false" }, one.outcome),
    ])) : h("p", { class: "quiet" }, "Nobody asked it to change anything.")));
    this.put("log", found.log, () => (found.log.length ? table("Log of its BMC", ["At", "What"], found.log.map((one) => [h("time", {}, day(one.at)), h("td", { class: one.warning ? "false" : "" }, one.text)])) : h("p", { class: "quiet" }, "It is empty since the lab's daemon started.")));
    this.put("faults", found.faults, () => (found.faults.length ? h("ul", { class: "notes" }, found.faults.map((one) => h("li", { class: "warn" }, `fault ${one.id}: ${one.text} `,
      h("button", { type: "button", disabled: store.readOnly, click: () => this.ask(place("faults", "clear"), { ids: [one.id] }, "taken away") }, "Take away")))) : h("p", { class: "quiet" }, "None was asked for.")));
  }

  async ask(path, value, said) {
    const answer = await act(path, value, said);
    this.look();
    return answer;
  }

  bootForm() {
    const device = h("select", {}, DEVICES.map((one) => h("option", {}, one)));
    const boot = (value) => this.ask(place("servers", this.name, "boot"), value, (seen) => (seen.boot === "none" ? `${this.name} starts as it is set` : `${this.name}: the next start is from ${seen.boot}`));
    return h("form", { class: "form", submit: (event) => { event.preventDefault(); boot({ device: device.value, once: true }); } },
      h("label", {}, "Next start from", device), h("button", { disabled: store.readOnly }, "Boot once"),
      h("button", { type: "button", disabled: store.readOnly, click: () => boot({ device: "none", once: true }) }, "As it is set"));
  }

  mediaForm() {
    const url = h("input", { type: "url", placeholder: "http://…/image.iso", required: true });
    const start = h("input", { type: "checkbox" });
    const insert = h("button", { disabled: store.readOnly }, "Insert");
    return h("form", {
      class: "form", submit: async (event) => {
        event.preventDefault();
        insert.disabled = true;
        await this.ask(place("servers", this.name, "media"), { url: url.value, boot: start.checked }, (seen) => `in the drive of ${this.name}: ${seen.media}`);
        insert.disabled = false;
      },
    }, h("label", { class: "grow" }, "Image for its drive, by URL", url), h("label", { class: "check" }, start, "Boot it once"), insert,
      h("button", { type: "button", disabled: store.readOnly, click: async () => { if (await confirm(`Eject what is in the drive of ${this.name}?`, "Eject")) this.ask(place("servers", this.name, "media"), { url: null }, `the drive of ${this.name} is empty`); } }, "Eject"));
  }

  faultForm() {
    const trouble = h("select", {}, TROUBLES.map((one) => h("option", {}, one)));
    const operation = h("select", {}, OPERATIONS.map((one) => h("option", { value: one }, one || "every")));
    const count = h("input", { type: "number", min: 1, placeholder: "for ever" });
    return h("form", {
      class: "form", submit: (event) => {
        event.preventDefault();
        this.ask(place("faults"), { trouble: trouble.value, server: this.name, operation: operation.value || null, count: count.value ? Number(count.value) : null }, (one) => `fault ${one.id}: ${one.text}`);
      },
    }, h("label", {}, "Trouble", trouble), h("label", {}, "Operation", operation), h("label", {}, "How often", count),
      h("button", { disabled: store.readOnly }, "Let it happen"));
  }
}

function limits({ low, high, unit }) {
  return [low === null ? "" : `at least ${low} ${unit}`, high === null ? "" : `at most ${high} ${unit}`].filter(Boolean).join(", ");
}
