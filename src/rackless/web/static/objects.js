// The objects of the lab's APIs: hosts, Machines, Nodes, certificate requests, with their conditions, their Events and as YAML.

import { complain } from "./ask.js";
import { day, facts, h, prose, section, show, table } from "./dom.js";
import { get, place, store } from "./store.js";

const KINDS = [["hosts", "Hosts"], ["machines", "Machines"], ["nodes", "Nodes"], ["requests", "Certificate requests"]];
const AGAIN = 3000;

export function objectsView(main, kind, name) {
  const list = h("div", { class: "list" });
  const detail = h("div", {}, h("p", { class: "quiet" }, "Choose one."));
  const shownOne = section("Object", place("objects"), detail);
  const json = shownOne.querySelector(".json");
  const all = h("div", {}, h("p", { class: "quiet" }, "Asking …"));
  show(main, h("h1", { class: "hidden" }, `Objects of ${store.lab}`),
    h("div", { class: "split" }, section("Objects", place("objects"), list), shownOne), section("Events of all objects", place("objects", "events"), all));
  let closed = false;
  let timer = 0;
  let shown = "";

  async function look() {
    timer = 0;
    try {
      const found = await get(place("objects"));
      if (closed) return;
      if (found.trouble) complain(new Error(found.trouble.what));
      if (!name) {
        const first = KINDS.find(([key]) => found[key].length);
        if (first) [kind, name] = [first[0], found[first[0]][0].metadata.name];
      }
      const focused = document.activeElement?.dataset?.object;
      const scrolled = list.scrollTop;
      show(list, KINDS.filter(([key]) => found[key].length).map(([key, title]) => [h("h3", { class: "kind" }, title, h("span", { class: "count" }, found[key].length)),
        found[key].map((one) => entry(key, one))]));
      if (!list.childElementCount) show(list, h("p", { class: "quiet" }, "None yet."));
      if (focused) list.querySelector(`[data-object="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
      list.scrollTop = scrolled;
      const chosen = found[kind]?.find((one) => one.metadata.name === name);
      if (chosen) await one(chosen);
      const { events, trouble } = await get(place("objects", "events"));
      if (!closed) show(all, trouble ? h("p", { class: "quiet" }, trouble.what) : happenings("Events of all objects", events, true));
    } catch (error) {
      show(list, h("p", {}, prose(error.message)), error.hint ? h("p", {}, prose(error.hint)) : null);
      shown = "";
      for (const each of [detail, all]) show(each, h("p", { class: "quiet" }, "Not known now."));
    }
  }

  function entry(key, one) {
    const mine = one.metadata.name;
    return h("button", { type: "button", "data-object": `${key}/${mine}`, "aria-pressed": String(key === kind && mine === name), click: () => choose(key, mine) },
      h("span", {}, mine), h("span", { class: `state-word ${wrong(key, one) ? "bad" : ""}` }, word(key, one)));
  }

  function choose(key, mine) {
    [kind, name, shown] = [key, mine, ""];
    shownOne.scrollIntoView({ block: "nearest" }); // where the list is above it, as on a telephone
    history.replaceState(null, "", `#/${[store.lab, "objects", key, mine].map(encodeURIComponent).join("/")}`);
    look();
  }

  async function one(record) {
    const mine = place("objects", kind, name);
    const { yaml, events } = await get(mine);
    const version = JSON.stringify([kind, name, yaml, events]);
    if (closed || version === shown) return;
    shown = version;
    json.href = mine;
    const conditions = record.status?.conditions ?? [];
    show(detail, facts([["Kind", record.kind], ["Name", record.metadata.name], ["Namespace", record.metadata.namespace], ["State", word(kind, record)], ["Error", record.status?.errorMessage], ["Made", moment(record.metadata.creationTimestamp)]]),
      conditions.length ? [h("h3", { class: "kind" }, "Conditions"), table("Conditions", ["Condition", "", "Reason", "Message", "Since"], conditions.map((each) => [each.type,
        h("td", { class: each.status === "True" ? "true" : each.status === "False" ? "false" : "" }, each.status), each.reason, each.message, moment(each.lastTransitionTime)]))] : null,
      h("h3", { class: "kind" }, "Events"), happenings("Events", events, false),
      h("h3", { class: "kind" }, "YAML"), h("pre", { class: "log", tabindex: "0" }, yaml));
  }

  look();
  let daemon = store.rack?.daemon;
  return {
    update: () => { if (store.rack?.daemon !== daemon) { daemon = store.rack?.daemon; timer ||= setTimeout(look, 0); } },
    happened: () => { timer ||= setTimeout(look, AGAIN); },
    close: () => { closed = true; clearTimeout(timer); },
  };
}

function happenings(label, events, whose) {
  if (!events.length) return h("p", { class: "quiet" }, "None is kept.");
  return table(label, ["Last", ...(whose ? ["Object"] : []), "Type", "Reason", "Message", "Times", "From"], events.map((one) => [
    moment(one.lastTimestamp ?? one.eventTime ?? one.metadata.creationTimestamp), ...(whose ? [`${one.involvedObject?.kind} ${one.involvedObject?.name}`] : []),
    h("td", { class: one.type === "Warning" ? "false" : "" }, one.type), one.reason, one.message, one.count ?? 1, one.source?.component || one.reportingComponent]));
}

function moment(text) {
  if (!text) return "";
  const at = Date.parse(text);
  return h("time", { datetime: text }, Number.isNaN(at) ? text : day(at / 1000));
}

// What somebody has to look at.
function wrong(kind, one) {
  if (kind === "hosts") return Boolean(one.status?.errorMessage);
  return kind === "machines" ? one.status?.phase === "Failed" : kind === "nodes" && word(kind, one) !== "Ready";
}

function word(kind, one) {
  if (kind === "hosts") return one.status?.provisioning?.state ?? "";
  if (kind === "machines") return one.status?.phase ?? "";
  const ready = one.status?.conditions?.find((each) => each.type === (kind === "nodes" ? "Ready" : "Approved"));
  return kind === "nodes" ? (ready?.status === "True" ? "Ready" : "NotReady") : ready ? "approved" : "pending";
}
