// Regression and processes on a line.
import { Asker, askOnce } from "../ask.js";
import { button, check, choice } from "../controls.js";
import { el, shown } from "../dom.js";
import { heat, Picture } from "../picture.js";
import { Points } from "../points.js";

export const regression = {
  id: "regression",
  title: "Regression and processes",
  theorem:
    "The mean of a Gaussian process with noise σ² is kernel ridge regression with nλ = σ², and interpolation where σ = 0; its deviation does not depend on the values, only on where the points are.",
  theory: "least_squares",
  columns: 2,
  start: {
    points: [[-2.6, -0.5], [-2.1, 0.4], [-1.7, 0.9], [-1.1, 0.5], [-0.6, -0.4], [0.0, -0.8], [0.4, -0.3], [1.5, 1.1], [1.9, 0.7], [2.4, -0.2]],
    model: "process",
    kernel: "1.0 * RBF(0.7)",
    noise: 0.05,
    paths: 0,
    seed: 0,
    loss: "none",
    q: 0.9,
    across: null,
    up: null,
  },

  build(room) {
    const main = new Picture("The function", { across: "x", up: "y" });
    const power = new Picture("Power function and worst error", { small: true, view: [-3, 3, 0, 1.2], height: 240, across: "x" });
    const map = new Picture("Evidence over two hyperparameters", { small: true, view: [-2, 2, -4, 1], height: 340, powers: [true, true] });
    map.svg.setAttribute("id", "evidence-map");
    room.pictures.append(main.root, power.root, map.root);
    const pointer = el("p", { id: "pointer", class: "small" });
    main.root.append(pointer);
    const points = new Points(main, {
      get: () => room.state.points,
      set: (rows) => room.change({ points: rows }),
      hover: (i) => {
        const row = i === null ? null : room.state.points[i];
        if (row) pointer.textContent = `Point ${i + 1} at (${shown(row[0])}, ${shown(row[1])})`;
      },
      full: (most) => room.warn(`${most} points are enough here; load your own data for more.`),
    });
    const quantile = room.slider("quantile", "q", { min: 0.05, max: 0.95, step: 0.05 });
    const shows = { value: true };
    const sides = el("div", { class: "row" });
    const done = () => {
      room.slow = null;
      room.busy.hidden = true;
      learn.disabled = false;
    };
    const learner = new Asker("learn", {
      answer: ({ kernel, noise: learned }) => {
        done();
        delete room.state.sliders;
        room.change({ kernel: kernel.text, noise: learned });
      },
      error: (message) => (done(), room.warn(message)),
      dropped: done,
      progress: (told) => room.progress(told),
    });
    const learn = button("Maximise the evidence", () => {
      learn.disabled = true;
      room.slow = learner; // which Cancel cancels
      learner.ask(room.state);
    });
    const noiseRoot = room.slider("noise σ² (= nλ of the ridge)", "noise", { min: 0.0001, max: 10, log: true });
    const noise = { node: noiseRoot.querySelector("input"), text: noiseRoot.querySelector(".value") };
    room.controls.append(
      el("p", { class: "small" }, "Click to add, drag to move, double-click to delete. By keyboard: n and p go from point to point, arrows move, Delete deletes."),
      el(
        "div",
        { class: "row" },
        button("Add a point in the middle", () => points.add([0, 0])),
        button("Add an outlier", () => points.add([0.9, -2.6])),
        button("Delete all", () => room.change({ points: [] })),
      ),
      room.samples({ wave: "A wave with noise" }, 30),
      room.choice("Model", "model", { process: "Gaussian process", ridge: "Kernel ridge", interpolation: "Interpolation" }),
      room.kernelBox(),
      noiseRoot,
      room.slider("sample paths", "paths", { min: 0, max: 8 }),
      room.slider("seed of the paths", "seed", { min: 0, max: 20 }),
      learn,
      el(
        "fieldset",
        {},
        el("legend", {}, "Another loss beside it"),
        room.choice("Loss", "loss", { none: "none", absolute: "absolute (the median)", huber: "Huber", quantile: "quantile", epsilon_insensitive: "ε-insensitive" }),
        quantile,
      ),
      el(
        "fieldset",
        {},
        el("legend", {}, "Map of the evidence"),
        check("show it", { value: true, input: (v) => ((shows.value = v), (map.root.hidden = !v), v && charted()) }).root,
        sides,
      ),
    );

    // The map is made row by row, and given up where something changes.
    let names = [];
    // Where nothing is chosen, a lengthscale goes across and the noise up.
    const side = () => room.state.across ?? Math.max(0, room.answer?.kernel?.sliders.findIndex((s) => s.name.endsWith("lengthscale")) ?? 0);
    let version = 0;
    let drawn = "";
    let limits = [[-2, 2], [-4, 1]];
    const charted = async () => {
      const { state } = room;
      if (!shows.value || !state.points.length || state.sliders) return;
      const across = side();
      const key = JSON.stringify([state.points, across, state.up, mapped(state)]);
      if (key === drawn) return cross();
      const mine = ++version;
      const values = [];
      try {
        for (let row = 0, size = 1; row < size; row++) {
          const answer = await askOnce("evidence", { ...state, across, up: state.up ?? undefined, row });
          if (mine !== version) return;
          ({ size } = answer.picture);
          values.push(...answer.numbers.evidence);
          if (row === 0) sidesFor(answer.picture.names);
          limits = answer.picture.limits;
          if (row % 4 === 0 || row === size - 1) paint(values, size);
        }
        drawn = key;
      } catch (error) {
        if (error.name !== "AbortError" && mine === version) map.says(error.message);
      }
    };
    // What the map depends on: its own two hyperparameters only say where the cross is.
    const mapped = (state) => {
      const values = room.answer?.kernel?.sliders.map((s) => s.value) ?? [];
      const all = [...values, state.noise];
      const [a, b] = [side(), state.up ?? all.length - 1];
      return [state.kernel.replaceAll(/[\d.eE+-]+/g, "#"), all.filter((_, i) => i !== a && i !== b)];
    };
    const sidesFor = (found) => {
      if (JSON.stringify(found) === JSON.stringify(names)) return;
      names = found;
      const options = Object.fromEntries(names.map((name, i) => [i, name]));
      const chosen = (label, name, value) =>
        choice(label, options, { value, id: name, input: (v) => ((room.state[name] = Number(v)), room.ask()) }).root;
      sides.replaceChildren(chosen("across", "across", side()), chosen("up", "up", room.state.up ?? names.length - 1));
    };
    const paint = (values, size) => {
      const known = values.filter((v) => v !== null);
      const best = Math.max(...known);
      const worst = Math.max(Math.min(...known), best - 40);
      map.setView([...limits[0], ...limits[1]]);
      map.clear();
      const full = [...values, ...Array(size * size - values.length).fill(null)];
      map.field(full, size, (v) => (v === null ? [128, 128, 128, 40] : heat((v - worst) / (best - worst || 1))));
      const at = values.indexOf(best);
      const along = (k, [low, high]) => low + (k / (size - 1)) * (high - low);
      const [u, v] = [along(at % size, limits[0]), along(Math.floor(at / size), limits[1])];
      map.dot(u, v, "k5", 4, "the highest of the map");
      const [a, b] = [names[side()], names[room.state.up ?? names.length - 1]];
      map.says(`log evidence over ${a} (across) and ${b} (up), brighter is higher; the highest place of the map, the dot, has ${shown(best)} at ${a} = ${shown(10 ** u, 3)}, ${b} = ${shown(10 ** v, 3)}. The cross is where you are; click to go elsewhere.`);
      cross();
    };
    const cross = () => {
      map.layers.over.querySelectorAll(".cross").forEach((node) => node.remove());
      const sliders = room.answer?.kernel?.sliders ?? [];
      const value = (i) => (i === names.length - 1 ? room.state.noise : sliders.find((s) => s.name === names[i])?.value);
      const [a, b] = [value(side()), value(room.state.up ?? names.length - 1)];
      if (a && b) map.cross(Math.log10(a), Math.log10(b));
    };
    map.svg.addEventListener("click", (event) => {
      const place = map.place(event);
      if (!place || !names.length) return;
      const patch = { sliders: { ...room.state.sliders } };
      [side(), room.state.up ?? names.length - 1].forEach((i, axis) => {
        const value = Number((10 ** place[axis]).toPrecision(3));
        if (i === names.length - 1) patch.noise = value;
        else if (!names[i].includes("[")) patch.sliders[names[i]] = value;
      });
      if (!Object.keys(patch.sliders).length) delete patch.sliders;
      room.change(patch);
    });

    const look = () => ({ className: "k1", radius: 5.5 });
    return {
      points: () => {
        quantile.hidden = room.state.loss !== "quantile";
        noise.node.value = Math.log10(room.state.noise);
        noise.text.textContent = shown(room.state.noise);
        points.draw(room.state.points, look);
      },
      draw: (answer) => {
        const { numbers, picture } = answer;
        main.clear();
        if (numbers.lower) main.band(picture.x, numbers.lower, numbers.upper);
        for (const path of numbers.paths ?? []) main.line(picture.x, path, "path");
        main.line(picture.x, numbers.mean, "accent");
        if (numbers.beside) main.line(picture.x, numbers.beside, "second");
        points.draw(room.state.points, look);
        const beside = numbers.beside ? ` The dashed line is the machine with the other loss: ${picture.loss}` : "";
        main.says(answer.text + beside);
        const top = Math.max(...numbers.power, 0.1);
        power.setView([-3, 3, 0, Number((1.15 * top).toPrecision(2))]);
        power.clear();
        power.line(picture.x, numbers.power, "accent");
        power.line(picture.x, numbers.worst_error, "second");
        power.says(`Whatever the values: the deviation of a process (line), from ${shown(Math.min(...numbers.power), 3)} near the points to ${shown(top, 3)} far from them, and the worst error over functions of norm one (dashed), which is the same only where nothing is smoothed.`);
        charted();
      },
      failed: () => {
        version++;
        main.clear();
        power.clear();
        points.draw(room.state.points, look);
        main.says("No function for these points yet.");
      },
      leave: () => version++,
    };
  },
};
