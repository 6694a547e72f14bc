// Mixtures by EM, step by step.
import { button } from "../controls.js";
import { el, shown } from "../dom.js";
import { Picture } from "../picture.js";
import { Points } from "../points.js";

const TURN = Array.from({ length: 61 }, (_, i) => (i / 60) * 2 * Math.PI);
const BARS = 12;

// The boundary of one or two deviations: μ + r Σ^{1/2} (cos, sin), by the Cholesky factor.
function ellipse([mx, my], [[a, b], [, c]], r) {
  const l = Math.sqrt(a);
  const m = b / l;
  const n = Math.sqrt(Math.max(c - m * m, 0));
  return [TURN.map((t) => mx + r * l * Math.cos(t)), TURN.map((t) => my + r * (m * Math.cos(t) + n * Math.sin(t)))];
}

export const mixtures = {
  id: "mixtures",
  title: "Mixtures",
  theorem:
    "log p(X | Θ) = L(q, Θ) + KL(q ‖ p(Z | X, Θ)): an E-step makes the divergence zero, an M-step raises L, so the likelihood never falls. Hard assignment promises that for the complete-data likelihood only.",
  theory: "mixtures",
  columns: 2,
  start: {
    points: [
      [-1.9, -0.9], [-1.4, -1.3], [-1.2, -0.5], [-1.6, -0.2], [-0.9, -1.0], [-2.1, -0.4], [-1.1, -1.6], [1.3, -0.9], [1.7, -0.4], [1.1, -0.3],
      [1.9, -1.1], [1.5, 0.1], [0.9, -0.7], [2.2, -0.6], [-0.3, 1.4], [0.2, 1.9], [0.5, 1.3], [-0.6, 1.8], [0.1, 2.2], [0.7, 1.8], [-0.1, 1.1],
    ],
    components: 3,
    covariance: "full",
    assignment: "soft",
    steps: 0,
    seed: 0,
  },

  build(room) {
    const main = new Picture("Points and components", { across: "x₁", up: "x₂" });
    const bars = new Picture("L(q, Θ) and the divergence, for each half-step", { small: true, view: [0, 1, 0, 1], height: 300, across: "half-steps: E, M, E, M, …" });
    const pointer = el("p", { id: "pointer", class: "small" });
    main.root.append(pointer);
    room.pictures.append(main.root, bars.root);
    let answered = null;
    const shares = (i) => answered?.numbers.responsibilities[i];
    const points = new Points(main, {
      get: () => room.state.points,
      set: (rows) => room.change({ points: rows }),
      hover: (i) => {
        if (i !== null && shares(i)) pointer.textContent = `Point ${i + 1} belongs to the components by ${shares(i).map((p) => shown(p, 3)).join(", ")}`;
      },
      full: (most) => room.warn(`${most} points are enough here.`),
    });
    const stepsRoot = room.slider("steps", "steps", { min: 0, max: 60 });
    const forward = (by) => room.change({ steps: Math.max(0, Math.min(60, by === null ? 0 : room.state.steps + by)) });
    room.controls.append(
      el("p", { class: "small" }, "Click to add, drag to move, double-click to delete a point."),
      el("div", { class: "row" }, button("Add a point in the middle", () => points.add([0, 0])), button("Delete all", () => room.change({ points: [] }))),
      room.samples({ blobs: "Three clouds", moons: "Moons", rings: "Rings" }, 90),
      el("div", { class: "row" }, button("One step of EM", () => forward(1)), button("Ten steps", () => forward(10)), button("Begin again", () => forward(null))),
      stepsRoot,
      room.slider("components", "components", { min: 1, max: 6 }),
      room.choice("Covariances", "covariance", { full: "full", tied: "one for all", diag: "diagonal", spherical: "round" }),
      room.choice("Assignment", "assignment", { soft: "soft: by probability", hard: "hard: to the best" }),
      room.slider("seed of the start", "seed", { min: 0, max: 20 }),
    );
    const look = (i) => {
      const p = shares(i);
      const best = p ? p.indexOf(Math.max(...p)) : 7;
      return { className: `k${best}`, radius: 4 + (p ? 2 * Math.max(...p) : 0), shape: 0, says: p ? `component ${best + 1}` : "" };
    };
    return {
      points: () => {
        stepsRoot.querySelector("input").value = room.state.steps;
        stepsRoot.querySelector(".value").textContent = room.state.steps;
        points.draw(room.state.points, look);
      },
      draw: (answer) => {
        answered = answer;
        const { numbers } = answer;
        main.clear();
        numbers.means.forEach((mean, k) => {
          for (const r of [1, 2]) main.line(...ellipse(mean, numbers.covariances[k], r), `ellipse s${k}`);
          main.cross(...mean);
        });
        points.draw(room.state.points, look);
        main.says(`${answer.text} Crosses are means, ellipses one and two deviations; weights ${numbers.weights.map((w) => shown(w, 3)).join(", ")}.`);
        const halves = numbers.bound_e.flatMap((bound, t) => [
          { name: `E ${t + 1}`, bound, kl: numbers.kl_e[t] },
          { name: `M ${t + 1}`, bound: numbers.bound_m[t], kl: numbers.kl_m[t] },
        ]);
        bars.clear();
        const last = halves.slice(-BARS);
        if (!last.length) return bars.says("No step yet: take one.");
        const low = Math.min(...last.map((h) => h.bound));
        const high = Math.max(...last.map((h) => h.bound + h.kl));
        const pad = Math.max(0.15 * (high - low), 1e-3);
        bars.setView([halves.length - last.length, halves.length - last.length + BARS, low - pad, high + pad]);
        last.forEach((h, i) => {
          const at = halves.length - last.length + i;
          bars.bar(at + 0.15, at + 0.85, low - pad, h.bound, "bar", `${h.name}: L = ${shown(h.bound, 7)}`);
          bars.bar(at + 0.15, at + 0.85, h.bound, h.bound + h.kl, "bar2", `${h.name}: KL = ${shown(h.kl, 4)}`);
        });
        const end = last.at(-1);
        bars.says(`After ${end.name}: L = ${shown(end.bound, 6)} (blue) and KL = ${shown(end.kl, 3)} (orange), together the log-likelihood per point, ${shown(end.bound + end.kl, 6)}.`);
      },
      failed: () => {
        answered = null;
        main.clear();
        bars.clear();
        points.draw(room.state.points, look);
        main.says("No mixture for these points yet.");
      },
    };
  },
};
