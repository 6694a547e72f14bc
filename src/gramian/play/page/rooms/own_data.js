// Your own data: a table from disk, read by the browser.
import { choice } from "../controls.js";
import { el, shown } from "../dom.js";
import { heat, Picture } from "../picture.js";
import { Points } from "../points.js";
import { drawMachine } from "./plane.js";
import { regression } from "./regression.js";

const MOST = 2000;
const CLASSES = 10;

// Rows of cells; quotes, and commas, semicolons or tabs between cells.
export function readTable(text) {
  const first = text.slice(0, text.search(/\r?\n|$/));
  const separator = [",", ";", "\t"].reduce((a, b) => (first.split(b).length > first.split(a).length ? b : a));
  const rows = [[""]];
  let quoted = false;
  for (let i = text.charCodeAt(0) === 0xfeff ? 1 : 0; i < text.length; i++) {
    const c = text[i];
    const row = rows.at(-1);
    if (quoted) {
      if (c !== '"') row[row.length - 1] += c;
      else if (text[i + 1] === '"') row[row.length - 1] += text[i++];
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === separator) row.push("");
    else if (c === "\n") rows.push([""]);
    else if (c !== "\r") row[row.length - 1] += c;
  }
  return rows.map((row) => row.map((cell) => cell.trim())).filter((row) => row.some((cell) => cell !== ""));
}

const isNumber = (cell) => cell !== "" && Number.isFinite(Number(cell));

// The state of the room from a table and the names of its columns.
export function stateOf(header, rows, [a, b, t]) {
  const [i, j, k] = [a, b, t].map((name) => header.indexOf(name));
  const whole = rows.filter((row) => isNumber(row[i]) && isNumber(row[j]) && row[k]);
  if (whole.length < 2) throw new Error(`${a} and ${b} need numbers in two rows at least.`);
  if (whole.length > MOST) throw new Error(`the table has ${whole.length} rows, and this page takes ${MOST}; gramian fit takes more.`);
  const labels = [...new Set(whole.map((row) => row[k]))].sort();
  const numeric = labels.every(isNumber);
  const task = numeric && labels.length > CLASSES ? "numbers" : "classes";
  if (task === "classes" && labels.length > CLASSES) throw new Error(`${t} has ${labels.length} different texts; this page takes ${CLASSES} classes.`);
  const [xs, ys] = [i, j].map((column) => whole.map((row) => Number(row[column])));
  const side = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const pad = 0.05 * (high - low) || 1;
    return [low - pad, high + pad];
  };
  return {
    points: whole.map((row, r) => [xs[r], ys[r], task === "classes" ? labels.indexOf(row[k]) : 0]),
    targets: task === "numbers" ? whole.map((row) => Number(row[k])) : [],
    labels: task === "classes" ? labels : [],
    names: [a, b, t],
    view: [...side(xs), ...side(ys)],
    task,
    machine: task === "classes" ? "svc" : "ridge",
    left: rows.length - whole.length,
  };
}

const wave = regression.start.points.map(([x, y]) => [x, y, y > 0 ? 1 : 0]);

export const own = {
  id: "own",
  title: "Your own data",
  theorem:
    "A kernel machine needs nothing but similarities: choose two columns of numbers and a target from a CSV file. The browser reads it, and it stays on this machine.",
  theory: "any_loss",
  start: { points: wave, targets: [], labels: ["low", "high"], names: ["x", "y", "high or low"], view: [-3, 3, -3, 3], task: "classes", machine: "svc", kernel: "RBF(1.0)", C: 1, noise: 0.1, left: 0 },

  build(room) {
    const main = new Picture("The machine over two columns", { view: room.state.view });
    room.pictures.append(main.root);
    const pointer = el("p", { id: "pointer", class: "small" });
    main.root.append(pointer);
    const points = new Points(main, {
      get: () => room.state.points,
      set: () => {}, // a table is looked at, not edited
      hover: (i) => {
        const { points: rows, targets, labels, names, task } = room.state;
        if (i !== null && rows[i]) pointer.textContent = `Row ${i + 1}: ${names[0]} = ${shown(rows[i][0])}, ${names[1]} = ${shown(rows[i][1])}, ${names[2]} = ${task === "classes" ? labels[rows[i][2]] : shown(targets[i])}`;
      },
    });
    const columns = el("div", { class: "sliders" });
    const machines = el("div");
    const file = el("input", { type: "file", id: "file", accept: ".csv,.tsv,.txt,text/csv" });
    let table = null;
    const chosen = { names: [] };
    const take = () => {
      try {
        const state = stateOf(table.header, table.rows, chosen.names);
        room.change(state);
        machinesFor();
      } catch (error) {
        room.fail(error.message);
      }
    };
    const load = async () => {
      const [given] = file.files;
      if (!given) return;
      if (given.size > 4 * 2 ** 20) return room.fail("the file has more than 4 MB; gramian fit reads large tables.");
      const [header, ...rows] = readTable(await given.text());
      const numeric = (header ?? []).filter((_, i) => rows.filter((row) => isNumber(row[i])).length > rows.length / 2);
      if (numeric.length < 2 || header.length < 3) return room.fail("the file needs a header, two columns of numbers and a target.");
      table = { header, rows };
      const target = header.findLast((name) => name !== numeric[0] && name !== numeric[1]);
      chosen.names = [numeric[0], numeric[1], target];
      const options = (names) => Object.fromEntries(names.map((name) => [name, name]));
      columns.replaceChildren(
        ...["Across", "Up", "Target"].map(
          (label, i) => choice(label, options(i < 2 ? numeric : header), { value: chosen.names[i], id: `column${i}`, input: (v) => ((chosen.names[i] = v), take()) }).root,
        ),
      );
      take();
    };
    file.addEventListener("change", load);
    file.addEventListener("click", () => (file.value = "")); // so that a file that was edited can be read again
    const price = room.slider("C, the price of an error", "C", { min: 0.001, max: 1000, log: true });
    const noise = room.slider("noise σ²", "noise", { min: 0.0001, max: 100, log: true });
    const machinesFor = () => {
      const classes = room.state.task === "classes";
      const options = classes ? { svc: "Support vector machine", logistic: "Logistic loss" } : { ridge: "Kernel ridge", process: "Gaussian process" };
      machines.replaceChildren(room.choice("Machine", "machine", options));
      price.hidden = !classes;
      noise.hidden = classes;
    };
    machinesFor();
    room.controls.append(
      el("label", { for: "file" }, "A CSV file, with a header", file),
      columns,
      machines,
      room.kernelBox(),
      price,
      noise,
      el("p", { class: "small" }, "Columns are scaled to deviation one before the kernel sees them. Rows with gaps are left out."),
    );
    let scale = () => 0;
    const look = (i, row) => {
      const { task, labels, targets } = room.state;
      if (task === "classes") return { className: `k${row[2]}`, radius: 4.5, says: labels[row[2]] };
      return { className: `k${Math.round(8 * scale(targets[i]))}`, radius: 3 + 4 * scale(targets[i]), shape: 0, says: shown(targets[i]) };
    };
    return {
      points: () => {
        const { targets, view } = room.state;
        const [low, high] = [Math.min(...targets), Math.max(...targets)];
        scale = (v) => (targets.length ? (v - low) / (high - low || 1) : 0);
        main.setView(view);
        points.draw(room.state.points, look);
      },
      draw: (answer, state) => {
        const { picture } = answer;
        if (state.task === "classes") drawMachine(main, answer);
        else {
          main.clear();
          const [low, high] = [Math.min(...picture.field), Math.max(...picture.field)];
          main.field(picture.field, picture.size, (v) => heat((v - low) / (high - low || 1)).with(3, 150));
        }
        points.draw(room.state.points, look);
        const [a, b, t] = state.names;
        const left = state.left ? ` Rows with gaps that are left out: ${state.left}.` : "";
        main.says(`${t} over ${a} (across) and ${b} (up). ${answer.text}${left}`);
      },
      failed: () => main.clear(),
    };
  },
};
