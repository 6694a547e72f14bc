"""Pages of the manual in a real browser: they fit a phone and a desk, and can be read in light and dark.

Some pages are built without the gallery and the pages of the reference, which take minutes. It needs the extra ``docs``
and Chromium with its driver, and is skipped, saying so, where they are not there.
"""

import importlib.util
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import chromium

DOCS = Path(__file__).parent.parent / "docs"
PAGES = ("index", "command", "guide/calibration", "guide/machines", "api")
EXTENSIONS = "sphinx.ext.autodoc,sphinx.ext.autosummary,numpydoc,myst_parser,sphinx_copybutton,sphinx_design,mathml"
FONTS = """
const walk = document.createTreeWalker(document.querySelector('.bd-article'), NodeFilter.SHOW_TEXT), found = [];
while (walk.nextNode()) {
  const parent = walk.currentNode.parentElement, style = getComputedStyle(parent), size = parseFloat(style.fontSize);
  const shown = size > 0 && parent.checkVisibility({visibilityProperty: true}) && !parent.closest('math, .sd-btn');
  if (shown && walk.currentNode.data.trim()) found.push([size, style.color, parent.tagName]);
}
return found;
"""


@pytest.fixture(scope="module")
def manual(tmp_path_factory, browser):
    missing = [name for name in EXTENSIONS.replace("mathml", "pydata_sphinx_theme").split(",") if not _is_there(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install '.[docs]'")
    source = tmp_path_factory.mktemp("manual") / "docs"
    for page in PAGES:
        copy = source / f"{page}.md"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DOCS / f"{page}.md", copy)
    shutil.copy(DOCS.parent / "README.md", source.parent)
    shutil.copy(DOCS / "at_a_glance.png", source)
    options = ["-c", DOCS, "-D", f"extensions={EXTENSIONS}", "-D", "autosummary_generate=0", "-Q"]
    built = source.parent / "html"
    subprocess.run([sys.executable, "-m", "sphinx", *options, source, built], check=True)
    return built


def _is_there(name):
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def lightness(colour):
    return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


def test_pages_fit_and_can_be_read(manual, browser):
    """One test, so that the pages are built once, by one worker."""
    for page, theme, width in product(PAGES, ("light", "dark"), (390, 1280)):
        where = (page, theme, width)
        chromium.seen_on(browser, width, theme)
        browser.get((manual / f"{page}.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, where
        background = lightness(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
        assert background < 60 if theme == "dark" else background > 200, where
        fonts = browser.execute_script(FONTS)
        assert len(fonts) > 50, where
        assert min(fonts)[0] >= 11.5, (where, min(fonts))
        pale = [found for found in fonts if abs(lightness(found[1]) - background) < 70]
        assert not pale, (where, pale[:5])
