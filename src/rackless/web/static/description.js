// What the lab was made from, and what `up` would do with another description. Nothing is changed here.

import { complain } from "./ask.js";
import { h, prose, section, show } from "./dom.js";
import { get, place, post, store } from "./store.js";

export function descriptionView(main) {
  const text = h("textarea", { class: "yaml", "aria-label": "lab.yaml", spellcheck: "false" });
  const plan = h("div", { "aria-live": "polite" }, h("p", { class: "quiet" }, prose("Edit the description and ask what `rackless up` would do with it. Nothing is changed: save it as lab.yaml and run `rackless up` for that.")));
  const button = h("button", { type: "button", class: "primary", disabled: store.readOnly, click: ask }, prose("What would `up` do?"));
  show(main, h("h1", { class: "hidden" }, `Description of ${store.lab}`),
    h("div", { class: "halves" }, section("Description", place("description"), text, h("div", { class: "form" }, button, store.readOnly ? h("span", { class: "quiet" }, "You may look.") : null)), section("Plan", null, plan)));
  get(place("description")).then((found) => { text.value = found.text; }, complain);

  async function ask() {
    button.disabled = true;
    show(plan, h("p", { class: "quiet" }, "Looking at the lab and at this computer …"));
    try {
      const { actions } = await post(place("plan"), { text: text.value });
      const work = actions.filter((one) => one.verb !== "keep");
      show(plan, h("p", {}, `${work.length} to do, ${actions.length - work.length} as wanted`),
        h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Actions" }, h("table", {}, h("thead", {}, h("tr", {}, ["", "What", "Why"].map((one) => h("th", { scope: "col" }, one)))),
          h("tbody", {}, [...work, ...actions.filter((one) => one.verb === "keep")].map((one) => h("tr", {}, h("td", { class: `verb ${one.verb}` }, one.verb), h("td", {}, one.subject), h("td", {}, one.reason)))))));
    } catch (error) {
      show(plan, h("div", { class: "notes" }, h("p", {}, h("strong", {}, prose(error.message))), h("pre", {}, error.why ?? ""), h("p", {}, prose(error.hint))));
    } finally {
      button.disabled = false;
    }
  }
  return {};
}
