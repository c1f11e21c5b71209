// Elements from values. Text is always a text node: nothing that came from a lab is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// A sentence of ours, in which commands stand between backticks.
export function prose(text) {
  return String(text ?? "").split("`").map((part, number) => (number % 2 ? h("code", {}, part) : part));
}

export function show(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Only what is different touches the page: 200 servers are looked through with every change.
export function setText(element, text) {
  const wanted = text ?? "";
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

export function seconds(count) {
  if (count < 100) return `${count.toFixed(1)} s`;
  const whole = Math.round(count);
  const minutes = Math.floor(whole / 60);
  return minutes < 100 ? `${minutes}m ${whole % 60}s` : `${(minutes / 60).toFixed(1)} h`;
}

// For people who wait: no tenths.
export function span(count) {
  return count < 100 ? `${Math.round(count)} s` : seconds(count);
}

// Hours, minutes and seconds here and now, written as logs write them, in every browser.
export function clock(at) {
  const moment = new Date(at * 1000);
  return [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(two).join(":");
}

function two(number) {
  return String(number).padStart(2, "0");
}

export function bytes(count) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (count >= size) return `${Math.round((count / size) * 10) / 10} ${unit}`;
  }
  return `${count} B`;
}

export function day(at) {
  const moment = new Date(at * 1000);
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())} ${clock(at)}`;
}

// A view's other form, for programs: JSON, and of a screen the picture.
function twin(title, address) {
  const form = address.endsWith("/screen") ? "PNG" : "JSON";
  return h("a", { class: "json", href: address, "aria-label": `${title} as ${form}` }, form);
}

export function section(title, json, ...children) {
  const id = `s-${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id },
    h("div", { class: "head" }, h("h2", { id }, title), json ? twin(title, json) : null),
    ...children);
}

const LONG = 24; // signs of an address or a number that is better in one piece

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("div", { class: value instanceof HTMLElement && value.textContent.length > LONG ? "long" : null }, h("dt", {}, name), h("dd", {}, value))));
}

export function table(label, heads, rows) {
  return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, heads.map((one) => h("th", { scope: "col" }, one)))), h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((one) => one instanceof HTMLTableCellElement ? one : h("td", {}, one)))))));
}

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
