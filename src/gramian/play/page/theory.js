// The theory pages of the manual: headings, paragraphs, lists and code; formulas as they are written.
import { el } from "./dom.js";

const PAGES = ["kernels", "maps", "spaces", "least_squares", "support_vectors", "any_loss", "components", "mixtures"];
const name = new URLSearchParams(location.search).get("page");
const place = document.getElementById("page");

function inline(text) {
  const pieces = text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)]+\))/);
  return pieces.map((piece) => {
    if (piece.startsWith("`")) return el("code", {}, piece.slice(1, -1));
    if (piece.startsWith("**")) return el("strong", {}, piece.slice(2, -2));
    const link = piece.match(/^\[([^\]]+)\]\((\w+)\.md(#[^)]*)?\)$/);
    if (link && PAGES.includes(link[2])) return el("a", { href: `theory.html?page=${link[2]}` }, link[1]);
    return piece.replace(/^\[([^\]]+)\]\([^)]+\)$/, "$1");
  });
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
        if (paragraph.startsWith("|")) return el("pre", {}, paragraph);
        return el("p", {}, ...inline(paragraph));
      });
  });
}

const title = (page) => page.replaceAll("_", " ");
document.getElementById("pages").append(...PAGES.map((page) => el("a", { href: `theory.html?page=${page}`, "aria-current": page === name }, title(page))));
if (PAGES.includes(name)) {
  const response = await fetch(`theory/${name}.md`);
  place.replaceChildren(...(response.ok ? render(await response.text()) : ["This page came without its theory; the manual has it."]));
  document.title = `${title(name)} – gramian play`;
} else place.textContent = "Choose a page above.";
