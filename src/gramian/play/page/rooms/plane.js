// Kernel machine in the plane.
import { button, oneOf } from "../controls.js";
import { el, shown } from "../dom.js";
import { classColour, Picture } from "../picture.js";
import { Points } from "../points.js";

export const MACHINES = {
  svc: "Support vector machine",
  logistic: "Logistic loss",
  hinge: "Hinge loss",
  squared_hinge: "Squared hinge loss",
  ramp: "Ramp loss (not convex)",
  pegasos: "Pegasos, step by step",
  gp: "Gaussian process classifier",
};

// Decision regions, the boundary and its margins.
export function drawMachine(picture, answer) {
  const { field, size, levels, classes } = answer.picture;
  picture.clear();
  if (levels.length) {
    const middle = levels.length === 1 ? levels[0] : 0;
    const spread = levels.length === 1 ? 0.5 : 1.5;
    picture.field(field, size, (v) => classColour(classes[v > middle ? 1 : 0], 0.08 + 0.4 * Math.min(1, Math.abs(v - middle) / spread)));
    for (const level of levels) picture.contour(field, size, level, level === middle ? "ink" : "thin");
  } else picture.field(field, size, (c) => classColour(Math.round(c), 0.35));
}

// The gap against steps, on a logarithmic scale.
export function drawGap(picture, steps, when = "") {
  picture.clear();
  if (!steps?.length) return picture.says("This machine was solved without steps to show.");
  const logs = steps.map(([, gap]) => Math.log10(gap));
  const last = Math.max(...steps.map(([done]) => done), 1);
  picture.setView([0, last, Math.floor(Math.min(...logs, -1)), Math.ceil(Math.max(...logs, 0)) + 0.2]);
  picture.line(steps.map(([done]) => done), logs, "accent");
  steps.forEach(([done], i) => picture.dot(done, logs[i], "k0", 3));
  const [first, end] = [steps[0][1], steps.at(-1)[1]];
  const went = `The relative duality gap went from ${first.toExponential(1)} to ${end.toExponential(1)} in ${shown(last)} steps`;
  picture.says(when ? `${went} ${when}; it is still being solved.` : `${went}; the certificate below is the proof.`);
}

export const pointLine = (row, i, answer) => {
  const { numbers, picture } = answer;
  const told = [`Point ${i + 1}: class ${row[2] + 1} at (${shown(row[0])}, ${shown(row[1])})`];
  const value = (v) => (Array.isArray(v) ? v.map((x) => shown(x)).join(", ") : shown(v));
  if (numbers.lambda?.[i] !== undefined) told.push(`λ = ${value(numbers.lambda[i])}`);
  if (picture.kinds?.[i]) told.push(picture.kinds[i]);
  if (numbers.values?.[i] !== undefined) told.push(`f = ${value(numbers.values[i])}`);
  return told.join(", ");
};

export const plane = {
  id: "plane",
  title: "Kernel machine in the plane",
  theorem:
    "By the representer theorem the best f is a sum over the points, f(x) = Σ αᵢ k(xᵢ, x) + b, whatever the loss; in a support vector machine only the points on the margin and beyond it have a weight λ > 0.",
  theory: "support_vectors",
  start: {
    points: [
      [-1.7, 0.4, 0], [-1.2, 1.3, 0], [-0.4, 1.7, 0], [0.5, 1.4, 0], [1.0, 0.6, 0], [1.2, -0.2, 0], [-2.0, -0.6, 0], [0.9, 0.9, 0],
      [-0.7, 0.2, 1], [-0.5, -0.7, 1], [0.2, -1.4, 1], [1.0, -1.7, 1], [1.8, -1.3, 1], [2.2, -0.4, 1], [-0.9, -0.2, 1], [0.3, -0.6, 1],
    ],
    machine: "svc",
    kernel: "RBF(1.0)",
    C: 1,
    steps: 20,
    variant: "textbook",
    seed: 0,
  },

  build(room) {
    const main = new Picture("Points, regions and margins", { view: room.state.view, across: "x₁", up: "x₂" });
    const gap = new Picture("The gap falling", { small: true, view: [0, 1, -6, 0], height: 240, across: "steps", powers: [false, true] });
    const pointer = el("p", { id: "pointer", class: "small" }, "Move over a point to see its λ.");
    main.root.append(pointer);
    room.pictures.append(main.root, gap.root);
    let adding = 0;
    let answered = null;
    const hover = (i) => {
      const row = i === null ? null : room.state.points[i];
      if (row && answered) pointer.textContent = pointLine(row, i, answered);
    };
    const points = new Points(main, {
      get: () => room.state.points,
      set: (rows) => room.change({ points: rows }),
      classOf: () => adding,
      hover,
      full: (most) => room.warn(`${most} points are enough here; load your own data for more.`),
    });
    const pegasos = el("fieldset", {}, el("legend", {}, "Pegasos"), room.slider("steps", "steps", { min: 1, max: 10000, log: true }));
    const steps = pegasos.querySelector("input");
    pegasos.append(
      el(
        "div",
        { class: "row" },
        button("One step more", () => forward(1)),
        button("As many again", () => forward(room.state.steps)),
      ),
      room.choice("Variant", "variant", { textbook: "as in lectures: random rows, plain average", passes: "passes over all rows, weighted average" }),
      room.slider("seed", "seed", { min: 0, max: 20 }),
    );
    const forward = (by) => {
      const value = Math.min(10000, Math.round(room.state.steps) + by);
      steps.value = Math.log10(value);
      pegasos.querySelector(".value").textContent = value;
      room.change({ steps: value });
    };
    room.controls.append(
      oneOf("Class of new points", { 0: "Class 1", 1: "Class 2", 2: "Class 3" }, { value: 0, input: (c) => (adding = Number(c)) }).root,
      el("p", { class: "small" }, "Click to add, drag to move, double-click to delete. By keyboard: n and p go from point to point, arrows move, Delete deletes, 1 to 3 set the class."),
      el("div", { class: "row" }, button("Add a point in the middle", () => points.add([0, 0])), button("Delete all", () => room.change({ points: [] }))),
      room.samples({ moons: "Moons", rings: "Rings", chessboard: "Chessboard", blobs: "Three classes" }, 80),
      room.choice("Machine", "machine", MACHINES),
      room.kernelBox(),
      room.slider("C, the price of an error", "C", { min: 0.001, max: 1000, log: true }),
      pegasos,
    );
    const look = (i, row) => ({
      className: `k${row[2]} ${answered?.picture.kinds?.[i] ?? ""}`,
      radius: answered?.picture.kinds?.[i] === "peripheral" ? 4.5 : 6,
      says: answered ? pointLine(row, i, answered).split(": ")[1] : "",
    });
    return {
      points: () => {
        pegasos.hidden = room.state.machine !== "pegasos";
        points.draw(room.state.points, look);
      },
      draw: (answer, state) => {
        answered = answer;
        drawMachine(main, answer);
        points.draw(room.state.points, look);
        main.says(answer.text);
        drawGap(gap, answer.picture.steps);
        if (state.machine === "pegasos") gap.says(`${gap.caption.textContent} Pegasos goes on as long as you let it.`);
      },
      solving: (steps) => drawGap(gap, steps, "so far"),
      failed: () => {
        answered = null;
        main.clear();
        points.draw(room.state.points, look);
        main.says("No machine for these points yet.");
      },
    };
  },
};
