// Pictures and scripts as files.
import { draw, el } from "./dom.js";

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family"];

function download(name, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A copy that needs no style sheet.
export function standalone(svg) {
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((node, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of KEPT) node.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "data-point", "aria-label"]) node.removeAttribute(name);
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(draw("rect", { width, height, fill: getComputedStyle(svg.closest("figure")).backgroundColor }));
  return new XMLSerializer().serializeToString(copy);
}

export const saveSvg = (svg, name) => download(`${name}.svg`, new Blob([standalone(svg)], { type: "image/svg+xml" }));

export async function asPng(svg, scale = 3) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
  await image.decode();
  const canvas = el("canvas", { width: scale * image.width, height: scale * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export const savePng = async (svg, name) => download(`${name}.png`, await asPng(svg));
export const saveScript = (text, name) => download(`${name}.py`, new Blob([text], { type: "text/x-python" }));
