// Points that can be added, dragged and deleted, by pointer and by keyboard.
import { draw, shown } from "./dom.js";

const MOST = 500;
const STEP = 1 / 60; // of the picture, for an arrow key
const NEAR = 4; // pixels within which a press is a click and not a drag

export class Points {
  // hooks: get() → rows, set(rows), classOf() → class of a new point or null, hover(index or null), full(most)
  constructor(picture, hooks) {
    Object.assign(this, { picture, hooks, current: 0, dragged: null, moved: false });
    const { svg } = picture;
    svg.setAttribute("role", "group");
    svg.addEventListener("pointerdown", (event) => this.press(event));
    svg.addEventListener("pointermove", (event) => this.move(event));
    svg.addEventListener("pointerup", (event) => this.release(event));
    svg.addEventListener("pointercancel", () => (this.dragged = null));
    svg.addEventListener("pointerleave", () => this.hooks.hover?.(null));
    svg.addEventListener("contextmenu", (event) => {
      const i = this.index(event.target);
      if (i === null) return;
      event.preventDefault();
      this.remove(i);
    });
    svg.addEventListener("dblclick", (event) => {
      const i = this.index(event.target);
      if (i !== null) this.remove(i);
    });
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("focusin", (event) => {
      const i = this.index(event.target);
      if (i !== null) this.hooks.hover?.(i);
    });
  }

  index(target) {
    const text = target.dataset?.point;
    return text === undefined ? null : Number(text);
  }

  rounded(place) {
    const [left, right, bottom, top] = this.picture.view;
    const digits = (span) => Math.max(0, 3 - Math.floor(Math.log10(span / 6)));
    const within = (v, low, high) => Math.min(high, Math.max(low, v));
    const x = Number(within(place[0], left, right).toFixed(digits(right - left)));
    const y = Number(within(place[1], bottom, top).toFixed(digits(top - bottom)));
    return [within(x, left, right), within(y, bottom, top)];
  }

  press(event) {
    if (event.button !== 0) return;
    this.start = [event.clientX, event.clientY];
    this.moved = false;
    this.dragged = this.index(event.target);
    if (this.dragged !== null) {
      this.picture.svg.setPointerCapture(event.pointerId);
      this.focus(this.dragged);
      event.preventDefault();
    }
  }

  move(event) {
    if (this.dragged === null || !event.buttons) {
      const i = this.index(event.target);
      if (i !== null) this.hooks.hover?.(i);
      return;
    }
    this.moved ||= Math.hypot(event.clientX - this.start[0], event.clientY - this.start[1]) > NEAR;
    if (this.moved) this.put(this.dragged, this.picture.place(event, true));
  }

  release(event) {
    const near = this.start && Math.hypot(event.clientX - this.start[0], event.clientY - this.start[1]) <= NEAR;
    if (event.button === 0 && this.dragged === null && near) {
      const place = this.picture.place(event);
      if (place) this.add(place);
    }
    this.dragged = this.start = null;
  }

  add(place) {
    const rows = this.hooks.get();
    if (rows.length >= MOST) return this.hooks.full?.(MOST);
    const c = this.hooks.classOf?.() ?? null;
    this.current = rows.length;
    this.hooks.set([...rows, [...this.rounded(place), ...(c === null ? [] : [c])]]);
  }

  put(i, place) {
    const rows = this.hooks.get().slice();
    rows[i] = [...this.rounded(place), ...rows[i].slice(2)];
    this.hooks.set(rows);
    this.hooks.hover?.(i);
  }

  remove(i) {
    const rows = this.hooks.get();
    this.hooks.hover?.(null);
    this.current = Math.max(0, Math.min(i, rows.length - 2));
    this.hooks.set(rows.filter((_, k) => k !== i));
  }

  key(event) {
    const i = this.index(event.target);
    if (i === null) return;
    const rows = this.hooks.get();
    const [left, right, bottom, top] = this.picture.view;
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (by) this.put(i, [rows[i][0] + by[0] * STEP * (right - left), rows[i][1] + by[1] * STEP * (top - bottom)]);
    else if (event.key === "Delete" || event.key === "Backspace") this.remove(i);
    else if (event.key === "n" || event.key === "p") this.focus((i + (event.key === "n" ? 1 : rows.length - 1)) % rows.length);
    else if (/^[1-9]$/.test(event.key) && rows[i].length > 2) this.hooks.set(rows.map((r, k) => (k === i ? [r[0], r[1], Number(event.key) - 1] : r)));
    else return;
    event.preventDefault();
  }

  focus(i) {
    this.current = i;
    const marks = this.picture.layers.marks.children;
    for (const [k, mark] of [...marks].entries()) mark.setAttribute("tabindex", k === i ? 0 : -1);
    marks[i]?.focus();
  }

  // Marks for all points; look(i, row) gives { class, radius, says }. Nodes are kept, so that focus and drags survive.
  draw(rows, look) {
    const layer = this.picture.layers.marks;
    while (layer.children.length > rows.length) layer.lastChild.remove();
    rows.forEach((row, i) => {
      const { className, radius = 5, says = "", shape = row[2] ?? 0 } = look(i, row);
      let mark = layer.children[i];
      if (!mark) layer.append((mark = draw("path", { "data-point": i, role: "button" })));
      mark.setAttribute("d", outline(shape, this.picture.x(row[0]), this.picture.y(row[1]), radius));
      mark.setAttribute("class", `mark ${className}`);
      mark.setAttribute("tabindex", i === Math.min(this.current, rows.length - 1) ? 0 : -1);
      mark.setAttribute("aria-label", `point ${i + 1} of ${rows.length} at (${shown(row[0])}, ${shown(row[1])})${says && `, ${says}`}`);
    });
  }
}

// Circles, squares, triangles: classes are told apart without colours too.
function outline(shape, x, y, r) {
  if (shape === 1) return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
  if (shape === 2) return `M${x} ${y - 1.25 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}z`;
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}
