// Feature space: the Gram matrix, distances, kernel PCA, and a line lifted by (x, x²).
import { button, oneOf } from "../controls.js";
import { el, shown } from "../dom.js";
import { heat, Picture } from "../picture.js";
import { Points } from "../points.js";

const START = Array.from({ length: 17 }, (_, i) => [Number((-2.4 + 0.3 * i).toFixed(1)), 0, Math.abs(i - 8) > 4 ? 1 : 0]);

const around = (values) => {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = 0.08 * (high - low) || 1;
  return [low - pad, high + pad];
};

export const features = {
  id: "features",
  title: "Feature space",
  theorem:
    "Distances and angles in feature space come from the kernel alone: ‖ψ(x) - ψ(z)‖² = k(x, x) - 2 k(x, z) + k(z, z). Points that no threshold separates on a line may be separated by a line once they are lifted.",
  theory: "maps",
  start: { points: START, kernel: "RBF(1.0)", matrix: "gram", first: 1, second: 9 },

  build(room) {
    const main = new Picture("The points", { across: "x₁", up: "x₂" });
    const matrix = new Picture("All pairs, sorted by class", { small: true, view: [0, 1, 0, 1] });
    matrix.svg.setAttribute("id", "all-pairs");
    const pca = new Picture("Kernel PCA", { small: true, view: [-1, 1, -1, 1], height: 300, across: "first component", up: "second" });
    const lift = new Picture("The line x₁ lifted by (x, x²)", { small: true, view: [-3, 3, -0.5, 9], height: 300, across: "x", up: "x²" });
    room.pictures.append(main.root, matrix.root, pca.root, lift.root);
    const pointer = el("p", { id: "pointer", class: "small" }, "Move over the matrix, or the sliders of the pair, to compare two points.");
    matrix.root.append(pointer);
    let adding = 0;
    let answered = null;
    const points = new Points(main, {
      get: () => room.state.points,
      set: (rows) => room.change({ points: rows }),
      classOf: () => adding,
      full: (most) => room.warn(`${most} points are enough here.`),
    });
    room.controls.append(
      oneOf("Class of new points", { 0: "Class 1", 1: "Class 2", 2: "Class 3" }, { value: 0, input: (c) => (adding = Number(c)) }).root,
      el("p", { class: "small" }, "Click to add, drag to move, double-click to delete a point. Click in the matrix to choose a pair."),
      el("div", { class: "row" }, button("Add a point in the middle", () => points.add([0, 0])), button("Delete all", () => room.change({ points: [] }))),
      room.samples({ line: "A line that no threshold separates", moons: "Moons", rings: "Rings", blobs: "Three classes" }, 60),
      room.kernelBox(),
      room.choice("Matrix", "matrix", { gram: "the Gram matrix k(x, z)", distances: "distances in feature space" }),
      room.slider("first point of the pair", "first", { min: 1, max: 60 }),
      room.slider("second point of the pair", "second", { min: 1, max: 60 }),
    );
    const cell = (event) => {
      const place = matrix.place(event);
      if (!place || !answered) return null;
      const { order } = answered.picture;
      const n = order.length;
      const [column, row] = [Math.min(n - 1, Math.floor(place[0])), Math.min(n - 1, n - 1 - Math.floor(place[1]))];
      return { row, column, pair: [order[row], order[column]] };
    };
    matrix.svg.addEventListener("pointermove", (event) => {
      const at = cell(event);
      if (!at) return;
      const { gram, distances } = answered.numbers;
      pointer.textContent = `Points ${at.pair[0] + 1} and ${at.pair[1] + 1}: k = ${shown(gram[at.row][at.column])}, distance ${shown(distances[at.row][at.column])}`;
    });
    matrix.svg.addEventListener("click", (event) => {
      const at = cell(event);
      if (at) room.change({ first: at.pair[0] + 1, second: at.pair[1] + 1 });
    });
    const look = (i, row) => {
      const chosen = answered?.picture.pair.includes(i);
      return { className: `k${row[2]} ${chosen ? "land" : ""}`, radius: chosen ? 7 : 5, says: `class ${row[2] + 1}` };
    };
    return {
      points: () => points.draw(room.state.points, look),
      draw: (answer) => {
        answered = answer;
        const { numbers } = answer;
        const rows = room.state.points;
        points.draw(rows, look);
        main.says(answer.text);
        const values = numbers[room.state.matrix] ?? numbers.gram;
        const n = values.length;
        const flat = values.flat();
        const [low, high] = [Math.min(...flat), Math.max(...flat)];
        matrix.setView([0, n, 0, n]);
        matrix.clear();
        matrix.field([...values].reverse().flat(), n, (v) => heat((v - low) / (high - low || 1)), true);
        const what = room.state.matrix === "gram" ? "k" : "the distance";
        matrix.says(`${n} × ${n} pairs in order of class; ${what} goes from ${shown(low, 3)} (dark) to ${shown(high, 3)} (bright).`);
        pca.clear();
        const [us, vs] = [numbers.projections.map((p) => p[0]), numbers.projections.map((p) => p[1] ?? 0)];
        pca.setView([...around(us), ...around(vs)]);
        us.forEach((u, i) => pca.dot(u, vs[i], `k${rows[i]?.[2] ?? 7}`, 4.5, `point ${i + 1}`));
        pca.says(`The points on their first two components, of eigenvalues ${numbers.eigenvalues.map((v) => shown(v, 3)).join(" and ")}.`);
        lift.clear();
        const xs = Array.from({ length: 61 }, (_, i) => -3 + i / 10);
        lift.line(xs, xs.map((x) => x * x), "thin");
        numbers.lifted.forEach(([x, square], i) => {
          lift.dot(x, square, `k${rows[i]?.[2] ?? 7}`, 4.5);
          lift.dot(x, -0.25, `k${rows[i]?.[2] ?? 7}`, 2.5);
        });
        if (numbers.w && Math.abs(numbers.w[1]) > 1e-12) lift.line([-3, 3], [-3, 3].map((x) => -(numbers.w[0] * x + numbers.b) / numbers.w[1]), "ink");
        lift.says(numbers.w ? `By x alone a threshold errs ${numbers.errors_on_the_line} times at least; the line in the plane of (x, x²) errs ${numbers.errors_lifted} times.` : "With two classes, the best line in the plane of (x, x²) is drawn.");
      },
      failed: () => {
        answered = null;
        for (const picture of [matrix, pca, lift]) picture.clear();
        points.draw(room.state.points, look);
        main.says("Nothing to compare yet.");
      },
    };
  },
};
