"""``gramian explain-kernel``: the meaning of a kernel expression, term by term."""

from __future__ import annotations

import argparse
from typing import Any

from gramian.cli.screen import Screen

HELP = "explain what a kernel expression means"
DRAWS = 20_000
"""Draws from the spectral measure to estimate its quantiles."""
SHOWN = 12
"""Monomials listed at most."""
SPECTRA = {
    "RBF": "Gaussian, of deviation 1/lengthscale",
    "Matern": "Student's t with 2 nu degrees of freedom, scaled by 1/lengthscale",
    "Laplace": "Cauchy, scaled by 1/lengthscale",
    "PowerExponential": "stable with exponent p in every input, times one positive stable number",
    "RationalQuadratic": "Gaussian whose precision is Gamma(alpha): heavier near zero",
    "Periodic": "discrete, at whole multiples of 2 pi / period",
    "Constant": "all at zero",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.add_argument("expression", help="such as '2*RBF(0.5)+Linear()'; it is parsed, never executed")
    parser.add_argument("--inputs", type=int, default=2, metavar="D", help="number of inputs (default: %(default)s)")


def run(options: argparse.Namespace, screen: Screen) -> dict[str, Any]:
    """Explain a kernel."""
    from gramian.kernels import resolve
    from gramian.kernels.parse import parse
    from gramian.kernels.resolve import names

    if not 1 <= options.inputs <= 1000:
        raise ValueError(f"--inputs must be between 1 and 1000, got {options.inputs}.")
    text = options.expression.strip()
    kernel = resolve(text, gamma=1.0 / options.inputs) if text in names() else parse(text)
    try:
        amplitude = float(kernel.amplitude)
    except TypeError:
        amplitude = None  # not stationary
    parameters = [
        {"name": p.name, "value": p.value, "bounds": None if isinstance(p.bounds, str) else list(p.bounds)}
        for p in kernel.all_parameters()
    ]
    found = {
        "kernel": repr(kernel),
        "terms": _terms(kernel, options.inputs),
        "parameters": parameters,
        "amplitude": amplitude,
        "tree": kernel.to_dict(),
    }
    _tell(found, screen)
    return found


def _terms(kernel: Any, d: int, depth: int = 0) -> list[dict[str, Any]]:
    """The kernel and its operands with the first line of their docstrings; for the innermost, also their features."""
    summary = (type(kernel).__doc__ or "").strip().splitlines()[0].replace("``", "")
    listed = [{"depth": depth, "kernel": repr(kernel), "what": summary}]
    for child in kernel.children:
        listed += _terms(child, d, depth + 1)
    if not kernel.children:
        listed[0] |= {"monomials": _monomials(kernel, d), "spectrum": _spectrum(kernel)}
    return listed


def _monomials(kernel: Any, d: int) -> dict[str, Any] | None:
    """The features of a polynomial kernel."""
    if not hasattr(kernel, "monomial_weights"):
        return None
    try:
        exponents, weights = kernel.monomial_weights(d)
    except MemoryError as error:
        return {"count": None, "note": str(error)}
    shown = {"exponents": exponents[:SHOWN].tolist(), "weights": weights[:SHOWN].tolist()}
    return {"inputs": d, "count": len(weights), **shown}


def _spectrum(kernel: Any) -> dict[str, Any] | None:
    """Quantiles of a stationary kernel's frequencies along one input."""
    import numpy as np

    try:
        draws = np.abs(kernel.frequencies(1, DRAWS, np.random.default_rng(0)).ravel())
    except (TypeError, ValueError, NotImplementedError):
        return None
    quantiles = {f"{q:g}": float(np.quantile(draws, q)) for q in (0.1, 0.5, 0.9)}
    return {"what": SPECTRA.get(type(kernel).__name__, "a mixture of those of its terms"), "quantiles": quantiles}


def _tell(found: dict[str, Any], screen: Screen) -> None:
    screen.say(found["kernel"], "bold")
    for term in found["terms"]:
        margin = "  " * (term["depth"] + 1)
        lines = [f"{term['kernel']}: {term['what']}"]
        if spectrum := term.get("spectrum"):
            low, half, high = (f"{q:.3g}" for q in spectrum["quantiles"].values())
            lines.append(f"  spectral density: {spectrum['what']};")
            lines.append(f"  frequencies along one input: half below {half}, a tenth below {low}, a tenth above {high}")
        lines += _monomial_lines(term.get("monomials"))
        screen.say("\n".join(margin + line for line in lines))
    if found["parameters"]:
        screen.say("parameters:")
    for p in found["parameters"]:
        learned = "fixed" if p["bounds"] is None else f"learned within {p['bounds'][0]:g} and {p['bounds'][1]:g}"
        screen.say(f"  {p['name']} = {p['value']}, {learned}")
    if found["amplitude"] is not None:
        screen.say(f"stationary: k(x, x) = {found['amplitude']:g} everywhere")


def _monomial_lines(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    if found["count"] is None:
        return [f"  monomials: {found['note']}"]
    lines = [f"  monomials in {found['inputs']} inputs: {found['count']:,}, with weights"]
    for powers, weight in zip(found["exponents"], found["weights"], strict=True):
        factors = [f"x{j + 1}" + (f"^{p}" if p > 1 else "") for j, p in enumerate(powers) if p]
        lines.append(f"    {weight:.4g}  {' '.join(factors) or '1'}")
    if found["count"] > SHOWN:
        lines.append(f"    ... and {found['count'] - SHOWN:,} more")
    return lines
