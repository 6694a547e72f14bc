// What all rooms share: the theorem, controls, pictures, the certificate, the numbers and the Python.
import { Asker, askOnce } from "./ask.js";
import { button, choice, slider } from "./controls.js";
import { el, shown } from "./dom.js";
import { savePng, saveScript, saveSvg } from "./save.js";
import { linkTo, writeState } from "./state.js";

export class Room {
  constructor(definition, state) {
    this.definition = definition;
    this.state = { ...structuredClone(definition.start), ...state };
    this.pictures = el("div", { class: "pictures" });
    this.controls = el("form", { class: "controls", "aria-label": "Controls", onsubmit: (event) => event.preventDefault() });
    this.says = el("p", { id: "says", "aria-live": "polite" });
    this.certificate = el("p", { id: "certificate", class: "card certificate" });
    this.numbers = el("dl", { id: "numbers", class: "card" });
    this.error = el("p", { id: "error", class: "error", role: "alert" });
    this.doing = el("span", { "aria-live": "polite" });
    this.busy = el("p", { id: "busy", class: "small", hidden: true }, this.doing, " ", button("Cancel", () => (this.slow ?? this.asker).cancel()));
    this.code = el("code", { id: "python" });
    this.asker = new Asker(definition.question ?? definition.id, {
      answer: (answer, state, ms) => this.hear(answer, state, ms),
      error: (message) => this.fail(message),
      dropped: () => (this.busy.hidden = true),
      progress: (told) => this.progress(told),
    });
    this.root = el(
      "section",
      { "aria-labelledby": "title" },
      el("h2", { id: "title" }, definition.title),
      el("p", { class: "theorem" }, definition.theorem, " ", el("a", { href: `theory.html?page=${definition.theory}`, target: "_blank" }, "Theory")),
      el("div", { class: "bench" }, this.pictures, this.controls),
      el(
        "div",
        { class: "found" },
        this.busy,
        this.error,
        this.says,
        this.certificate,
        this.numbers,
        el("details", { class: "card", open: true }, el("summary", {}, "The Python that reproduces this"), this.exports(), el("pre", { tabindex: 0 }, this.code)),
      ),
    );
    this.parts = definition.build(this);
  }

  exports() {
    const name = `gramian-${this.definition.id}`;
    const first = () => this.pictures.querySelector("svg");
    const note = el("span", { class: "small", role: "status" });
    const copy = async (text, what) => {
      note.textContent = await navigator.clipboard.writeText(text).then(() => `${what} copied`, () => "the browser does not let pages copy; select the text instead");
    };
    return el(
      "div",
      { class: "row" },
      button("Copy Python", () => copy(this.code.textContent, "Python")),
      button("Save script", () => saveScript(this.code.textContent, name)),
      button("Save SVG", () => saveSvg(first(), name)),
      button("Save PNG", () => savePng(first(), name)),
      button("Copy link", () => copy(linkTo(this.definition.id, this.state), "link"), { title: "Opens the same picture elsewhere: gramian play 'LINK'" }),
      note,
    );
  }

  // Change the state, remember it in the address, and ask.
  change(patch) {
    Object.assign(this.state, patch);
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.parts.points?.();
    });
    this.ask();
  }

  // Say something that leaves the picture as it is.
  warn(message) {
    this.error.textContent = message;
  }

  ask() {
    writeState(this.definition.id, this.state);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.asker.busy && this.progress({ label: "working" }), 300);
    this.asker.ask(this.state);
  }

  hear(answer, state, ms) {
    this.answer = answer;
    this.error.textContent = "";
    this.root.classList.remove("stale");
    this.busy.hidden = true;
    this.root.dataset.answered = Number(this.root.dataset.answered ?? 0) + 1;
    this.root.dataset.milliseconds = ms.toFixed(0);
    if (state.sliders) {
      // The expression has the values now.
      if (JSON.stringify(this.state.sliders) === JSON.stringify(state.sliders)) delete this.state.sliders;
      this.state.kernel = answer.kernel.text;
      writeState(this.definition.id, this.state);
    }
    this.says.textContent = answer.text ?? "";
    this.certificate.textContent = answer.certificate ?? "";
    this.certificate.hidden = !answer.certificate;
    this.certificate.classList.toggle("bad", answer.converged === false);
    this.code.textContent = answer.python ?? "";
    const scalars = Object.entries(answer.numbers).filter(([, value]) => typeof value === "number");
    this.numbers.hidden = !scalars.length;
    this.numbers.replaceChildren(
      ...scalars.map(([name, value]) => el("div", {}, el("dt", {}, name.replaceAll("_", " ")), el("dd", { "data-number": name, "data-value": value }, shown(value, 7)))),
    );
    if (answer.kernel) this.kernel?.(answer.kernel);
    this.parts.draw(answer, state);
  }

  fail(message) {
    this.busy.hidden = true;
    this.error.textContent = message;
    this.root.classList.add("stale"); // the numbers below belong to the last answer
    this.root.dataset.answered = Number(this.root.dataset.answered ?? 0) + 1;
    this.parts.failed?.(message);
  }

  progress(told) {
    const figures = ["gap", "violation"].filter((name) => name in told).map((name) => `${name} ${told[name].toExponential(1)}`);
    const text = [told.label, told.done !== undefined && `${shown(told.done)} steps`, ...figures].filter(Boolean).join(", ");
    this.doing.textContent = `${text} …`;
    this.busy.hidden = false;
    if (told.steps?.length) this.parts.solving?.(told.steps);
  }

  // The expression box with a slider for each number of the expression.
  kernelBox() {
    const box = el("input", { type: "text", id: "kernel", spellcheck: "false", autocomplete: "off", value: this.state.kernel });
    const holder = el("div", { class: "sliders" });
    const set = el("fieldset", {}, el("legend", {}, "Kernel"), el("label", { for: "kernel" }, "Expression, such as 2*RBF(0.5) + Linear()", box), holder);
    box.addEventListener("input", () => {
      delete this.state.sliders;
      this.change({ kernel: box.value });
    });
    let names = "";
    let made = [];
    this.kernel = ({ text, sliders }) => {
      if (document.activeElement !== box) box.value = this.state.sliders ? box.value : text;
      const now = JSON.stringify(sliders.map((s) => s.name));
      if (now !== names) {
        names = now;
        made = sliders.map(({ name, value }) =>
          slider(name, { min: 0.01, max: 100, log: true, value, id: `kernel.${name}`, input: (v) => this.change({ sliders: { ...this.state.sliders, [name]: v } }) }),
        );
        holder.replaceChildren(...made.map((s) => s.root));
      } else if (!this.state.sliders) sliders.forEach(({ value }, i) => made[i].set(value));
    };
    return set;
  }

  slider(label, name, options) {
    const made = slider(label, { value: this.state[name], id: name, input: (value) => this.change({ [name]: value }), ...options });
    return made.root;
  }

  choice(label, name, options) {
    return choice(label, options, { value: this.state[name], id: name, input: (value) => this.change({ [name]: value }) }).root;
  }

  // A choice of samples that replace the points.
  samples(options, size = 60) {
    let seed = 0;
    const node = choice("Load a sample", { "": "choose …", ...options }, {
      value: "",
      id: "sample",
      input: async (sample) => {
        if (!sample) return;
        try {
          const { points } = await askOnce("sample", { sample, size, seed: seed++ });
          this.change({ points: this.definition.columns ? points.map((row) => row.slice(0, this.definition.columns)) : points });
        } catch (error) {
          this.fail(error.message);
        }
        node.set("");
      },
    });
    return node.root;
  }

  leave() {
    clearTimeout(this.waiting);
    this.asker.wanted = null;
    if (this.asker.busy) this.asker.cancel();
    this.parts.leave?.();
  }
}
