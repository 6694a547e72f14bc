// The TeX of the theory pages as text with subscripts and superscripts; what is unknown is shown as it is written.
import { el } from "./dom.js";

const WORDS = {
  sum: "Σ", prod: "Π", int: "∫", partial: "∂", infty: "∞", square: "∎",
  lambda: "λ", alpha: "α", omega: "ω", sigma: "σ", pi: "π", ell: "ℓ", nu: "ν", psi: "ψ", mu: "μ", kappa: "κ", xi: "ξ", beta: "β",
  varphi: "φ", phi: "φ", delta: "δ", eta: "η", chi: "χ", varepsilon: "ε", epsilon: "ε", gamma: "γ", theta: "θ", rho: "ρ", tau: "τ",
  Sigma: "Σ", Gamma: "Γ", Theta: "Θ", Lambda: "Λ", Phi: "Φ", Omega: "Ω",
  top: "ᵀ", rangle: "⟩", langle: "⟨", cdot: "·", le: " ≤ ", ge: " ≥ ", ne: " ≠ ", in: " ∈ ", to: " → ", leftarrow: " ← ", sim: " ~ ",
  times: "×", vert: "|", mid: " | ", lVert: "‖", rVert: "‖", ldots: "…", cdots: "⋯", quad: "  ",
  exp: "exp", log: "log", max: "max", min: "min", sup: "sup", sin: "sin", cos: "cos", det: "det",
};
const MARKS = { hat: "\u0302", bar: "\u0304", tilde: "\u0303" };
const PLAIN = ["mathrm", "mathcal", "mathbf", "mathbb", "text", "operatorname"];
const SIZES = /^(left|right|Bigl|Bigr|bigl|bigr|big|Big)$/;

const bracketed = (nodes) => (nodes.length === 1 ? nodes : ["(", ...nodes, ")"]);

export function formula(text) {
  const tokens = text.match(/\\[a-zA-Z]+|\\.|[^\\]/g) ?? [];
  let at = 0;
  const group = () => {
    const found = [];
    while (at < tokens.length && tokens[at] !== "}") found.push(...item());
    at++;
    return found;
  };
  const argument = () => {
    while (tokens[at] === " ") at++;
    if (tokens[at] !== "{") return item();
    at++;
    return group();
  };
  const item = () => {
    const token = tokens[at++] ?? "";
    if (token === "{") return group();
    if (token === "_" || token === "^") return [el(token === "_" ? "sub" : "sup", {}, ...argument())];
    if (token === "~") return [" "];
    if (token === "-") return ["−"];
    if (!token.startsWith("\\")) return [token];
    const name = token.slice(1);
    if (name === "|") return ["‖"];
    if (name === "frac" || name === "dfrac") return [...bracketed(argument()), "/", ...bracketed(argument())];
    if (name === "binom") return ["C(", ...argument(), ", ", ...argument(), ")"];
    if (name === "sqrt") return ["√", ...bracketed(argument())];
    if (name in MARKS) return [...argument(), MARKS[name]];
    if (PLAIN.includes(name)) return argument();
    if (SIZES.test(name)) return [];
    if (/^[,; !]$/.test(name)) return [" "];
    return [WORDS[name] ?? (name.length === 1 ? name : token)];
  };
  const found = [];
  while (at < tokens.length) found.push(...item());
  return el("span", { class: "formula" }, ...found);
}
