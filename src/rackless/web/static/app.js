// The page: which view is shown, the bar above it, the events beside it.

import { complain, tellIn } from "./ask.js";
import { h, prose, setText, show } from "./dom.js";
import { EventList } from "./events.js";
import { rackView } from "./rack.js";
import { get, listen, open, place, post, store } from "./store.js";

const VIEWS = [["rack", "Rack"], ["install", "Install"], ["objects", "Objects"], ["description", "Description"]];
// the others are loaded when somebody looks at them
const LOAD = {
  rack: async () => rackView,
  server: async () => (await import("./server.js")).serverView,
  install: async () => (await import("./install.js")).installView,
  objects: async () => (await import("./objects.js")).objectsView,
  description: async () => (await import("./description.js")).descriptionView,
};

const AGAIN = 3000; // until somebody has made a lab

const main = document.getElementById("main");
const events = new EventList(document.getElementById("events"));
let view = null;
let shown = "";

function route() {
  const [lab, name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  return { lab, name: LOAD[name] ? name : "rack", rest };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function go() {
  const { lab, name, rest } = route();
  if (!lab) {
    if (store.labs.length) location.replace(`#/${encodeURIComponent(store.first)}/rack`);
    return;
  }
  if (lab !== store.lab) { absent = false; open(lab); }
  const wanted = JSON.stringify([lab, name, rest]);
  if (wanted === shown) return;
  const first = !shown;
  shown = wanted;
  view?.close?.();
  view = null;
  bar(name);
  try {
    const make = await LOAD[name]();
    if (shown !== wanted) return;
    view = make(main, ...rest);
  } catch (error) {
    complain(error);
  }
  document.title = `${[...rest, name === "server" ? "" : name].filter(Boolean).join(" · ")} – ${lab} – rackless`;
  if (!first) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function bar(name) {
  show(document.getElementById("views"), VIEWS.map(([key, title]) => h("a", {
    href: `#/${encodeURIComponent(store.lab)}/${key}`, "aria-current": key === name || (key === "rack" && name === "server") ? "page" : null,
  }, title)));
  const labs = document.getElementById("labs");
  show(labs, store.labs.map((one) => h("option", { value: one.lab, selected: one.lab === store.lab }, one.lab)));
  labs.value = store.lab;
  document.getElementById("events-json").href = `${place("events")}?since=-200`;
}

listen((what, value) => {
  if (what === "lab") events.clear();
  if (what === "events") value === null ? events.clear() : events.add(value);
  if (what === "line" || what === "rack" || what === "lab") state();
  if (what === "line") absence();
  view?.update && what === "rack" && view.update(value);
  view?.happened && what === "events" && value && view.happened(value);
});

// The lab was destroyed, or never was: say so, until it is there again.
let absent = false;
async function absence() {
  if (absent && store.line === "live") {
    absent = false;
    shown = "";
    await go();
  } else if (!absent && store.line === "gone") {
    absent = true;
    view?.close?.();
    view = null;
    store.labs = (await get("/api/labs")).labs;
    const others = store.labs.map((one) => h("li", {}, h("a", { href: `#/${encodeURIComponent(one.lab)}/rack` }, one.lab)));
    show(main, h("div", { class: "empty" }, h("p", {}, `There is no lab ${store.lab}. If it is made again, this page shows it.`), others.length ? [h("p", {}, "These are here:"), h("ul", {}, others)] : null));
    bar(route().name);
  }
}

function state() {
  const element = document.getElementById("state");
  const away = store.line === "live" && store.rack && store.rack.daemon !== "running";
  setText(element, away ? `labd ${store.rack.daemon}` : { ended: "ended: open a new link", gone: "no such lab" }[store.line] ?? store.line);
  element.className = `state ${away ? "away" : store.line}`;
}

const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const wish = localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = wish;
  setText(theme, wish === "dark" ? "☀" : "☾");
}
theme.addEventListener("click", () => {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
});
dark.addEventListener("change", paint);
paint();

document.getElementById("labs").addEventListener("change", (event) => { location.hash = `#/${encodeURIComponent(event.target.value)}/rack`; });
document.getElementById("share").addEventListener("click", async () => {
  try {
    const { url } = await post("/api/links", { read_only: true });
    tellIn("A link for another browser", h("p", {}, "It can be used once; who uses it may look and change nothing."), h("p", {}, h("code", { class: "link" }, url)));
  } catch (error) {
    complain(error);
  }
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, dialog, .terminal") || event.ctrlKey || event.metaKey || event.altKey) return;
  const chosen = VIEWS[Number(event.key) - 1];
  if (chosen && store.lab) location.hash = `#/${encodeURIComponent(store.lab)}/${chosen[0]}`;
});
window.addEventListener("hashchange", go);

async function start() {
  const [session, labs] = await Promise.all([get("/api/session"), get("/api/labs")]);
  store.readOnly = session.read_only;
  store.labs = labs.labs;
  store.first = labs.first;
  document.documentElement.classList.toggle("read-only", store.readOnly);
  document.getElementById("read-only").hidden = !store.readOnly;
  document.getElementById("share").hidden = store.readOnly;
  document.documentElement.classList.toggle("no-lab", !store.labs.length);
  if (!store.labs.length) {
    show(main, h("p", { class: "empty" }, prose("No lab is on this computer yet. `rackless up` makes one, and this page shows it then.")));
    setText(document.getElementById("state"), "no lab");
    setTimeout(() => start().catch(complain), AGAIN);
    return;
  }
  await go();
}

start().catch(complain);
