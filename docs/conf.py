"""Sphinx configuration; see https://www.sphinx-doc.org/en/master/usage/configuration.html."""

import re
import sys
from pathlib import Path
from typing import Any

import gramian
from gramian.kernels import Dot, Kernel, Radial
from gramian.losses import Loss

project = "gramian"
author = "gramian developers"
copyright = "2026, gramian developers"
version = release = gramian.__version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "offline",
]
exclude_patterns = ["_build"]
html_math_renderer = "mathml"  # nothing to fetch: the pages can be read offline
templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "header_links_before_dropdown": 6,  # all of them in one row
    "navbar_align": "left",
    "show_toc_level": 2,
    "show_prev_next": False,
}
html_sidebars = {"index": []}
html_static_path = ["_static"]
html_css_files = ["manual.css"]
html_show_sourcelink = False
# What is copied is code that runs: no prompts, and no output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_title = f"gramian {version}"

# Where capital letters do not tell files apart, Exp and exp need different names.
autosummary_filename_map = {
    f"gramian.kernels.{name}": f"gramian.kernels.{name}-function"
    for name in ("exp", "kernel", "polynomial")
}
# What every kernel or loss has stands on the page of its base class only.
autosummary_context = {
    "bases": ["Kernel", "Radial", "Dot", "Loss"],
    "shared": sorted(
        {
            *dir(Kernel),
            *dir(Radial),
            *dir(Dot),
            *dir(Loss),
            "curvature",
            "conjugate",
            "prox",
        }
    ),
}
autodoc_typehints = "none"  # the docstrings give types, with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # autodoc lists them
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
myst_update_mathjax = False

examples = Path(__file__).parent.parent / "examples"
if any(examples.rglob("*.py")):
    extensions += ["sphinx_gallery.gen_gallery", "thumbnails"]
    sphinx_gallery_conf = {
        "examples_dirs": str(examples),
        "gallery_dirs": "gallery",
        "filename_pattern": r"\.py$",
        "subsection_order": [
            f"../examples/{group}"
            for group in (
                "kernels",
                "regression",
                "classification",
                "structure",
                "large",
            )
        ],
        "image_scrapers": ("thumbnails.one_panel",),
        "download_all_examples": False,
        "write_computation_times": False,  # a page that would fetch scripts from elsewhere
        "show_signature": False,
    }


def plain_names(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Keep ``coef_`` from reading as a link, and scikit-learn's inherited links from pointing nowhere."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(
                r"(?<![`\w.\\])([A-Za-z]\w*)_(?=[\s,):*]|$)", r"\1\\_", line
            )
            lines[i] = re.sub(
                r":(?:ref|term):`([^`<]+?)(?:\s*<[^`>]+>)?`", r"\1", line
            )


def not_ours(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what scikit-learn's base classes bring; its own pages say it better."""
    return (
        True
        if (getattr(obj, "__module__", None) or "").startswith("sklearn")
        else None
    )


def setup(app: Any) -> None:
    """Run after numpydoc, which has made reStructuredText of the docstrings."""
    app.connect("autodoc-process-docstring", plain_names, priority=900)
    app.connect("autodoc-skip-member", not_ours)
