// Labelled controls; each returns { root, set }.
import { el, shown } from "./dom.js";

let made = 0;

// A slider, on a scale of powers of ten where `log`.
export function slider(label, { min, max, step, log = false, value, input, id }) {
  const to = log ? Math.log10 : (v) => v;
  const from = log ? (v) => Number((10 ** v).toPrecision(4)) : (v) => v;
  const output = el("span", { class: "value" });
  const name = id ?? `control${++made}`;
  const node = el("input", { type: "range", id: name, min: to(min), max: to(max), step: step ?? (log ? 0.02 : 1) });
  const tell = (v) => {
    output.textContent = shown(v);
    node.setAttribute("aria-valuetext", shown(v));
  };
  const set = (v) => {
    if (document.activeElement !== node || from(Number(node.value)) !== v) node.value = to(v);
    tell(v);
  };
  node.addEventListener("input", () => {
    const v = from(Number(node.value));
    tell(v);
    input(v);
  });
  set(value);
  return { root: el("label", { for: name }, el("span", {}, `${label} `, output), node), set, node };
}

export function choice(label, options, { value, input, id }) {
  const name = id ?? `control${++made}`;
  const node = el(
    "select",
    { id: name, onchange: () => input(node.value) },
    ...Object.entries(options).map(([key, text]) => el("option", { value: key }, text)),
  );
  node.value = value;
  return { root: el("label", { for: name }, label, node), set: (v) => (node.value = v), node };
}

export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

// Buttons of which one is pressed.
export function oneOf(label, options, { value, input }) {
  const buttons = Object.entries(options).map(([key, text]) => button(text, () => (set(key), input(key)), { "data-key": key }));
  const set = (v) => buttons.forEach((b) => b.setAttribute("aria-pressed", b.dataset.key === String(v)));
  set(value);
  return { root: el("div", { class: "row", role: "group", "aria-label": label }, ...buttons), set };
}

export function check(label, { value, input, id }) {
  const node = el("input", { type: "checkbox", id: id ?? `control${++made}`, onchange: () => input(node.checked) });
  node.checked = value;
  return { root: el("label", { for: node.id, class: "row" }, node, label), set: (v) => (node.checked = v), node };
}
