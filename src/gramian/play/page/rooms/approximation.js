// Random features and Nyström.
import { button } from "../controls.js";
import { el, shown } from "../dom.js";
import { Picture } from "../picture.js";
import { Points } from "../points.js";

const START = Array.from({ length: 60 }, (_, i) => {
  const angle = i * 2.39996;
  const radius = 2.6 * Math.sqrt((i + 0.5) / 60) * (i % 4 ? 1 : 0.4);
  return [Number((radius * Math.cos(angle)).toFixed(3)), Number((radius * Math.sin(angle)).toFixed(3))];
});

export const approximation = {
  id: "approximation",
  title: "Random features and Nyström",
  theorem:
    "By Bochner's theorem a stationary kernel is an average of waves, and D random waves approximate it with an error like 1/√D; m landmarks give K ≈ K_nm K_mm⁻¹ K_mn, which is exact at the landmarks.",
  theory: "large_n",
  columns: 2,
  start: { points: START, kernel: "RBF(1.0)", method: "fourier", features: 50, draw: "orthogonal", landmarks: 10, rule: "rpcholesky", seed: 0 },

  build(room) {
    const main = new Picture("Points and landmarks", { across: "x₁", up: "x₂" });
    const curve = new Picture("The kernel and its approximation", { small: true, view: [0, 4, -0.5, 1.2], height: 300, across: "distance from the middle of the points" });
    const falls = new Picture("Mean error against size", { small: true, view: [0, 3.2, -6, 0], height: 260, across: "features or landmarks", powers: [true, true] });
    room.pictures.append(main.root, curve.root, falls.root);
    let answered = null;
    const points = new Points(main, {
      get: () => room.state.points,
      set: (rows) => (rows.length > 300 ? room.warn("300 points are enough here.") : room.change({ points: rows })),
    });
    const fourier = el(
      "fieldset",
      {},
      el("legend", {}, "Random features"),
      room.slider("features D", "features", { min: 2, max: 3000, log: true }),
      room.choice("Draw", "draw", { orthogonal: "orthogonal", iid: "independent", qmc: "quasi-random" }),
    );
    const nystrom = el(
      "fieldset",
      {},
      el("legend", {}, "Landmarks"),
      room.slider("landmarks m", "landmarks", { min: 1, max: 60 }),
      room.choice("Rule", "rule", { rpcholesky: "random pivots", uniform: "uniform", greedy: "greedy pivots", leverage: "leverage scores", kmeans: "k-means" }),
    );
    room.controls.append(
      room.choice("Approximation", "method", { fourier: "random Fourier features", nystrom: "Nyström landmarks" }),
      fourier,
      nystrom,
      room.slider("seed", "seed", { min: 0, max: 50 }),
      room.kernelBox(),
      el("p", { class: "small" }, "Click to add, drag to move, double-click to delete a point."),
      el("div", { class: "row" }, button("Add a point in the middle", () => points.add([0, 0])), button("Delete all", () => room.change({ points: [] }))),
      room.samples({ moons: "Moons", rings: "Rings", blobs: "Three clouds" }, 120),
    );
    const look = (i) => {
      const taken = answered?.picture.landmarks?.includes(i);
      return { className: taken ? "k1 land" : "k0", radius: taken ? 7 : 4, shape: taken ? 1 : 0, says: taken ? "landmark" : "" };
    };
    return {
      points: () => {
        // Features are whole, though their slider has a logarithmic scale.
        room.state.features = Math.round(room.state.features);
        fourier.hidden = room.state.method !== "fourier";
        nystrom.hidden = !fourier.hidden;
        points.draw(room.state.points, look);
      },
      draw: (answer) => {
        answered = answer;
        const { numbers, picture } = answer;
        points.draw(room.state.points, look);
        main.says(picture.landmarks ? `${answer.text} Squares are the landmarks.` : answer.text);
        const top = Math.max(...numbers.kernel, ...numbers.approximation);
        const low = Math.min(0, ...numbers.kernel, ...numbers.approximation);
        curve.setView([0, 4, Number((1.1 * low - 0.05 * top).toPrecision(2)), Number((1.1 * top).toPrecision(2))]);
        curve.clear();
        curve.line(picture.r, numbers.kernel, "ink");
        curve.line(picture.r, numbers.approximation, "second");
        curve.says(`The kernel (black) and its approximation (dashed) between the middle of the points and places to its right; at distance 0 they are ${shown(numbers.kernel[0])} and ${shown(numbers.approximation[0])}.`);
        const pairs = picture.sizes.map((size, i) => [size, i < numbers.errors.length ? numbers.errors[i] : numbers.mean_error]).filter(([, e]) => e > 0).sort((a, b) => a[0] - b[0]);
        const logs = pairs.map(([s, e]) => [Math.log10(s), Math.log10(e)]);
        falls.clear();
        if (!logs.length) return falls.says("The approximation is exact here.");
        falls.setView([0, 3.6, Math.floor(Math.min(...logs.map((l) => l[1]))), Math.ceil(Math.max(...logs.map((l) => l[1]), -1))]);
        falls.line(logs.map((l) => l[0]), logs.map((l) => l[1]), "accent");
        logs.forEach(([u, v], i) => falls.dot(u, v, pairs[i][0] === picture.sizes.at(-1) ? "k1" : "k0", 4, `${pairs[i][0]}: ${shown(pairs[i][1], 3)}`));
        falls.says(`The mean error falls from ${shown(pairs[0][1], 3)} with ${pairs[0][0]} to ${shown(pairs.at(-1)[1], 3)} with ${pairs.at(-1)[0]}; the orange dot is the size chosen.`);
      },
      failed: () => {
        answered = null;
        for (const picture of [curve, falls]) picture.clear();
        points.draw(room.state.points, look);
        main.says("Nothing to approximate yet.");
      },
    };
  },
};
