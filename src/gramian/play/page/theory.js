// The theory pages of the manual: headings, paragraphs, lists, tables, formulas and code.
import { el } from "./dom.js";
import { formula } from "./formula.js";

const text = async (page) => {
  const response = await fetch(`theory/${page}.md`);
  return response.ok ? response.text() : "";
};
const PAGES = (await text("index")).match(/```{toctree}[\s\S]*?```/)?.[0].match(/^\w+$/gm) ?? [];
const name = new URLSearchParams(location.search).get("page");
const place = document.getElementById("page");

function inline(text) {
  const pieces = text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*|\$\$[^$]+\$\$|\$[^$]+\$|\[[^\]]+\]\([^)]+\))/);
  return pieces.map((piece) => {
    if (piece.startsWith("`")) return el("code", {}, piece.slice(1, -1));
    if (piece.startsWith("$")) return formula(piece.replaceAll("$", ""));
    if (piece.startsWith("**")) return el("strong", {}, piece.slice(2, -2));
    if (/^\*[^*]+\*$/.test(piece)) return el("em", {}, piece.slice(1, -1));
    const link = piece.match(/^\[([^\]]+)\]\((\w+)\.md(#[^)]*)?\)$/);
    if (link && PAGES.includes(link[2])) return el("a", { href: `theory.html?page=${link[2]}` }, link[1]);
    return piece.replace(/^\[`?([^\]`]+)`?\]\([^)]+\)$/, "$1");
  });
}

function table(paragraph) {
  const rows = paragraph.split("\n").filter((line) => !/^\|[-:| ]+\|$/.test(line));
  const cells = (line) => line.replace(/^\||\|$/g, "").split("|").map((cell) => el("td", {}, ...inline(cell.trim())));
  return el("div", { class: "scroll" }, el("table", {}, ...rows.map((line) => el("tr", {}, ...cells(line)))));
}

function render(text) {
  const blocks = text.split(/^(```[\s\S]*?^```)$/m);
  return blocks.flatMap((block) => {
    if (block.startsWith("```")) return el("pre", {}, el("code", {}, block.replace(/^```.*\n/, "").replace(/```$/, "")));
    return block
      .split(/\n\s*\n/)
      .map((paragraph) => paragraph.trim())
      .filter(Boolean)
      .map((paragraph) => {
        const heading = paragraph.match(/^(#{1,3}) (.*)$/);
        if (heading) return el(`h${heading[1].length}`, {}, ...inline(heading[2]));
        if (/^[-*] /.test(paragraph)) return el("ul", {}, ...paragraph.split(/\n[-*] /).map((item) => el("li", {}, ...inline(item.replace(/^[-*] /, "")))));
        if (paragraph.startsWith("|")) return table(paragraph);
        if (paragraph.startsWith("$$")) return el("p", { class: "display" }, ...inline(paragraph));
        return el("p", {}, ...inline(paragraph));
      });
  });
}

const title = (page) => page.replaceAll("_", " ");
document.getElementById("pages").append(...PAGES.map((page) => el("a", { href: `theory.html?page=${page}`, "aria-current": page === name }, title(page))));
if (PAGES.includes(name)) {
  place.replaceChildren(...render(await text(name)));
  document.title = `${title(name)} – gramian play`;
} else place.textContent = PAGES.length ? "Choose a page above." : "This copy came without its theory pages; the manual has them.";
