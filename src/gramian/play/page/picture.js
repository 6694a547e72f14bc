// A picture in SVG with axes, layers and a text beside it.
import { draw, el, shown } from "./dom.js";

const WIDTH = 440;
const SMALL = 300; // of pictures beside the first: drawn smaller, with letters of the same size
const MARGIN = { left: 44, right: 10, top: 8, bottom: 30 };
export const LAYERS = ["field", "grid", "back", "lines", "marks", "over"];
let made = 0;

function ticks(low, high, powers, about) {
  const raw = Math.max((high - low) / about, powers ? 1 : 0);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= raw);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-6; t += step) found.push(Number(t.toPrecision(10)));
  return found;
}

export class Picture {
  constructor(title, { view = [-3, 3, -3, 3], height = WIDTH, across = "", up = "", powers = [], small = false } = {}) {
    this.id = `picture${++made}`;
    const width = small ? SMALL : WIDTH;
    Object.assign(this, { title, width, height: Math.round((height * width) / WIDTH), across, up, powers, about: small ? 4 : 6 });
    this.clip = draw("clipPath", { id: `${this.id}clip` }, draw("rect", this.box()));
    this.layers = Object.fromEntries(
      LAYERS.map((name) => [name, draw("g", name === "grid" ? {} : { "clip-path": `url(#${this.id}clip)` })]),
    );
    this.svg = draw(
      "svg",
      { viewBox: `0 0 ${width} ${this.height}`, role: "img", "aria-labelledby": `${this.id}title ${this.id}says` },
      draw("defs", {}, this.clip),
      ...Object.values(this.layers),
    );
    this.caption = el("figcaption", { id: `${this.id}says` });
    this.root = el("figure", {}, el("h3", { id: `${this.id}title` }, title), this.svg, this.caption);
    this.setView(view);
  }

  box() {
    return {
      x: MARGIN.left,
      y: MARGIN.top,
      width: this.width - MARGIN.left - MARGIN.right,
      height: this.height - MARGIN.top - MARGIN.bottom,
    };
  }

  setView(view) {
    if (this.view && view.every((v, i) => v === this.view[i])) return;
    this.view = view;
    const [left, right, bottom, top] = view;
    const { x, y, width, height } = this.box();
    const grid = this.layers.grid;
    grid.replaceChildren();
    const label = (t, powers) => (powers ? `1e${t}` : shown(t));
    for (const t of ticks(left, right, this.powers[0], this.about)) {
      grid.append(draw("line", { class: "grid", x1: this.x(t), x2: this.x(t), y1: y, y2: y + height }));
      grid.append(draw("text", { x: this.x(t), y: y + height + 14, "text-anchor": "middle" }, label(t, this.powers[0])));
    }
    for (const t of ticks(bottom, top, this.powers[1], this.about)) {
      grid.append(draw("line", { class: "grid", x1: x, x2: x + width, y1: this.y(t), y2: this.y(t) }));
      grid.append(draw("text", { x: x - 5, y: this.y(t) + 4, "text-anchor": "end" }, label(t, this.powers[1])));
    }
    grid.append(draw("rect", { class: "frame", ...this.box() }));
    if (this.across) grid.append(draw("text", { x: x + width / 2, y: this.height - 3, "text-anchor": "middle" }, this.across));
    if (this.up) grid.append(draw("text", { x: x + 6, y: y + 14 }, this.up));
  }

  x(value) {
    const { x, width } = this.box();
    return x + ((value - this.view[0]) / (this.view[1] - this.view[0])) * width;
  }

  y(value) {
    const { y, height } = this.box();
    return y + height - ((value - this.view[2]) / (this.view[3] - this.view[2])) * height;
  }

  // Where in the picture's own numbers an event happened; null outside the frame.
  place(event, clamp = false) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    const { x, y, width, height } = this.box();
    const [u, v] = [(at.x - x) / width, (y + height - at.y) / height];
    if (!clamp && (u < 0 || u > 1 || v < 0 || v > 1)) return null;
    const within = (t) => Math.min(1, Math.max(0, t));
    const [left, right, bottom, top] = this.view;
    return [left + within(u) * (right - left), bottom + within(v) * (top - bottom)];
  }

  clear(...names) {
    for (const name of names.length ? names : ["field", "back", "lines", "over"]) this.layers[name].replaceChildren();
  }

  says(text) {
    this.caption.textContent = text;
  }

  // Values on a grid, row by row from the bottom, as colours [r, g, b, a]; at places, or in cells.
  field(values, columns, colour, cells = false) {
    const rows = values.length / columns;
    const canvas = el("canvas", { width: columns, height: rows });
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    values.forEach((value, i) => image.data.set(colour(value), 4 * ((rows - 1 - Math.floor(i / columns)) * columns + (i % columns))));
    context.putImageData(image, 0, 0);
    const { x, y, width, height } = this.box();
    const [dx, dy] = cells ? [0, 0] : [width / (columns - 1), height / (rows - 1)];
    this.layers.field.append(
      draw("image", {
        href: canvas.toDataURL(),
        x: x - dx / 2,
        y: y - dy / 2,
        width: width + dx,
        height: height + dy,
        preserveAspectRatio: "none",
        "image-rendering": cells ? "pixelated" : "auto",
      }),
    );
  }

  // Where values on a grid over the view cross a level, by marching squares.
  contour(values, size, level, className) {
    const [left, right, bottom, top] = this.view;
    const at = (i, j) => values[j * size + i] - level;
    const px = (i) => this.x(left + (i / (size - 1)) * (right - left));
    const py = (j) => this.y(bottom + (j / (size - 1)) * (top - bottom));
    let path = "";
    for (let j = 0; j < size - 1; j++)
      for (let i = 0; i < size - 1; i++) {
        const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
        const cuts = [];
        for (let side = 0; side < 4; side++) {
          const [[a, b], [c, d]] = [corners[side], corners[(side + 1) % 4]];
          const [u, v] = [at(a, b), at(c, d)];
          if (u < 0 === v < 0) continue;
          const t = u / (u - v);
          cuts.push([px(a + t * (c - a)), py(b + t * (d - b))]);
        }
        for (let k = 0; k + 1 < cuts.length; k += 2)
          path += `M${cuts[k].map((z) => z.toFixed(1))}L${cuts[k + 1].map((z) => z.toFixed(1))}`;
      }
    if (path) this.layers.lines.append(draw("path", { class: className, d: path }));
  }

  line(xs, ys, className, layer = "lines") {
    const clipped = (v) => Math.max(-9999, Math.min(9999, v)).toFixed(1);
    const points = xs.map((x, i) => `${clipped(this.x(x))},${clipped(this.y(ys[i]))}`).join(" ");
    this.layers[layer].append(draw("polyline", { class: className, points }));
  }

  band(xs, lower, upper, className = "band") {
    const points = [...xs.map((x, i) => [x, lower[i]]), ...xs.map((x, i) => [x, upper[i]]).reverse()];
    this.layers.back.append(
      draw("polygon", { class: className, points: points.map(([x, y]) => `${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`).join(" ") }),
    );
  }

  bar(left, right, low, high, className, title) {
    const node = draw("rect", {
      class: className,
      x: this.x(left),
      y: this.y(high),
      width: Math.max(0, this.x(right) - this.x(left)),
      height: Math.max(0, this.y(low) - this.y(high)),
    });
    if (title) node.append(draw("title", {}, title));
    this.layers.back.append(node);
  }

  cross(x, y, className = "cross", size = 6) {
    const [u, v] = [this.x(x), this.y(y)];
    this.layers.over.append(draw("path", { class: className, d: `M${u - size} ${v}h${2 * size}M${u} ${v - size}v${2 * size}` }));
  }

  dot(x, y, className, radius = 4.5, title = null, layer = "over") {
    this.layers[layer].append(draw("circle", { class: className, cx: this.x(x), cy: this.y(y), r: radius }, title && draw("title", {}, title)));
  }
}

const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#8c8c8c", "#6b4e16", "#444444"].map((hex) =>
  [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)),
);
export const classColour = (c, alpha) => [...PALETTE[c % PALETTE.length], Math.round(255 * alpha)];

// Dark blue over green to yellow, for values between 0 and 1.
export function heat(t) {
  const stops = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const at = Math.min(0.9999, Math.max(0, Number.isFinite(t) ? t : 0)) * (stops.length - 1);
  const i = Math.floor(at);
  return [...stops[i].map((v, k) => Math.round(v + (at - i) * (stops[i + 1][k] - v))), 255];
}
