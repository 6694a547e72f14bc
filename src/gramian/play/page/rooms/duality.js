// Duality: primal and dual values closing in, and multipliers set by hand.
import { button, check, oneOf, slider } from "../controls.js";
import { el, shown } from "../dom.js";
import { classColour, Picture } from "../picture.js";
import { Points } from "../points.js";

export const duality = {
  id: "duality",
  title: "Duality",
  theorem:
    "Whatever 0 ≤ λ ≤ C with Σ λᵢyᵢ = 0 you choose, the dual function Σ λᵢ - ½ Σ λᵢλⱼyᵢyⱼk(xᵢ, xⱼ) is a lower bound of ½‖w‖² + C Σ ξᵢ; at the optimum the two meet, and that is what a certificate proves.",
  theory: "duality",
  start: {
    points: [[-1.8, 0.4, 0], [-0.9, 1.2, 0], [-0.6, -0.8, 0], [1.6, 0.3, 1], [0.8, -1.2, 1], [0.3, 0.6, 1]],
    kernel: "Linear()",
    C: 1,
    lam: [0.1, 0.1, 0.1, 0.1, 0.1, 0.1],
    balance: true,
  },

  build(room) {
    const main = new Picture("Your function (dashed) and the best", { across: "x₁", up: "x₂" });
    const course = new Picture("Primal and dual against steps", { small: true, view: [0, 1, 0, 1], height: 300, across: "steps of the solver" });
    const bars = new Picture("The bracket that you made", { small: true, view: [0, 3, 0, 1], height: 260 });
    room.pictures.append(main.root, course.root, bars.root);
    let adding = 0;
    let answered = null;
    const points = new Points(main, {
      get: () => room.state.points,
      set: (rows) => (rows.length > 12 ? room.warn("12 points are enough here: each has a slider.") : room.change({ points: rows })),
      classOf: () => adding,
    });
    const holder = el("div", { class: "sliders" });
    let made = [];
    const lam = (i) => room.state.lam[i] ?? 0;
    const put = (i, value) => room.change({ lam: room.state.points.map((_, k) => (k === i ? value : lam(k))) });
    const sliders = () => {
      const { points: rows, C } = room.state;
      if (made.length === rows.length && made.C === C && made.classes === rows.map((r) => r[2]).join()) return made.forEach((s, i) => s.set(Math.min(lam(i), C)));
      made = rows.map((row, i) =>
        slider(`λ of point ${i + 1}, class ${row[2] + 1}`, { min: 0, max: C, step: C / 200, value: Math.min(lam(i), C), id: `lam${i}`, input: (v) => put(i, v) }),
      );
      made.C = C;
      made.classes = rows.map((r) => r[2]).join();
      holder.replaceChildren(...made.map((s) => s.root));
    };
    room.controls.append(
      oneOf("Class of new points", { 0: "Class 1", 1: "Class 2" }, { value: 0, input: (c) => (adding = Number(c)) }).root,
      el("p", { class: "small" }, "Click to add, drag to move, double-click to delete; up to 12 points."),
      room.kernelBox(),
      room.slider("C", "C", { min: 0.01, max: 100, log: true }),
      el(
        "fieldset",
        {},
        el("legend", {}, "Multipliers by hand"),
        check("scale the heavier class down, so that Σ λᵢyᵢ = 0", { value: room.state.balance, id: "balance", input: (v) => room.change({ balance: v }) }).root,
        el(
          "div",
          { class: "row" },
          button("The best", () => answered && room.change({ lam: answered.numbers.multipliers })),
          button("All zero", () => room.change({ lam: room.state.points.map(() => 0) })),
        ),
        holder,
      ),
    );
    const look = (i, row) => ({
      className: `k${row[2]} ${answered?.picture.used?.[i] > 0 ? "margin" : ""}`,
      radius: 5 + 4 * Math.min(1, (answered?.picture.used?.[i] ?? 0) / room.state.C),
      says: `class ${row[2] + 1}, λ = ${shown(answered?.picture.used?.[i] ?? 0, 3)}`,
    });
    return {
      points: () => {
        sliders();
        points.draw(room.state.points, look);
      },
      draw: (answer) => {
        answered = answer;
        const { numbers, picture } = answer;
        main.clear();
        main.field(picture.best, picture.size, (v) => classColour(v > 0 ? 1 : 0, 0.08 + 0.3 * Math.min(1, Math.abs(v) / 1.5)));
        main.contour(picture.best, picture.size, 0, "ink");
        main.contour(picture.by_hand, picture.size, 0, "second");
        points.draw(room.state.points, look);
        main.says("Shades and the black line are the best machine; the dashed line is where the function of your multipliers is zero. Larger marks have a larger λ.");
        const top = 1.15 * Math.min(Math.max(...numbers.primal), 3 * numbers.optimum + 1e-9);
        course.setView([0, Math.max(1, picture.steps.at(-1)), Math.min(0, ...numbers.dual), top]);
        course.clear();
        course.line(picture.steps, numbers.primal, "second");
        course.line(picture.steps, numbers.dual, "accent");
        course.says(`Primal (dashed) and dual values of the solver's steps: from ${shown(numbers.primal[0])} and ${shown(numbers.dual[0])} to ${shown(numbers.primal.at(-1), 6)} and ${shown(numbers.dual.at(-1), 6)} after ${picture.steps.at(-1)} steps.`);
        bars.clear();
        const high = Math.max(numbers.optimum, Math.min(numbers.value, 4 * numbers.optimum)) * 1.15;
        const low = Math.min(0, numbers.bound ?? 0);
        bars.setView([0, 3, low, high]);
        if (numbers.bound !== null) bars.bar(0.15, 0.85, Math.min(0, numbers.bound), Math.max(0, numbers.bound), "bar", `bound ${shown(numbers.bound, 6)}`);
        bars.bar(1.15, 1.85, 0, numbers.optimum, "k2", `optimum ${shown(numbers.optimum, 6)}`);
        bars.bar(2.15, 2.85, 0, Math.min(numbers.value, high), "bar2", `value ${shown(numbers.value, 6)}`);
        bars.says(`Left to right: your bound ${numbers.bound === null ? "minus infinity" : shown(numbers.bound, 6)}, the optimum ${shown(numbers.optimum, 6)}, the objective of your function ${shown(numbers.value, 6)}.`);
      },
      failed: () => {
        answered = null;
        for (const picture of [main, course, bars]) picture.clear();
        points.draw(room.state.points, look);
        main.says("No machine for these points yet.");
      },
    };
  },
};
