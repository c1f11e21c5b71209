// Asking before something is lost, doing it, and saying what came of it.

import { h, prose, show } from "./dom.js";
import { Failure, post } from "./store.js";

export function toast(text, kind = "info", more = []) {
  const made = h("div", { class: `toast ${kind}` }, h("strong", {}, prose(text)), more.filter(Boolean).map((line) => h("p", {}, prose(line))),
    h("button", { type: "button", class: "plain", "aria-label": "Close", click: () => made.remove() }, "×"));
  document.getElementById("toasts").append(made);
  if (kind === "info") setTimeout(() => made.remove(), 6000);
}

export function complain(error) {
  if (error instanceof Failure) toast(error.message, "error", [error.why, error.hint]);
  else toast(String(error?.message ?? error), "error");
}

export async function act(path, value, said) {
  try {
    const answer = await post(path, value);
    if (said) toast(typeof said === "function" ? said(answer) : said);
    return answer;
  } catch (error) {
    complain(error);
    return null;
  }
}

export function confirm(question, verb) {
  const dialog = document.getElementById("dialog");
  return new Promise((resolve) => {
    const end = (value) => { dialog.onclose = null; dialog.close(); resolve(value); };
    dialog.onclose = () => resolve(false);
    show(dialog, h("h2", { id: "dialog-head" }, question), h("div", { class: "buttons" },
      h("button", { type: "button", click: () => end(false), autofocus: true }, "Cancel"),
      h("button", { type: "button", class: "danger", click: () => end(true) }, verb)));
    dialog.showModal();
  });
}

export function tellIn(title, ...children) {
  const dialog = document.getElementById("dialog");
  dialog.onclose = null;
  show(dialog, h("h2", { id: "dialog-head" }, title), ...children, h("div", { class: "buttons" },
    h("button", { type: "button", click: () => dialog.close(), autofocus: true }, "Close")));
  dialog.showModal();
}
