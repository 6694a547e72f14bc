"""The manual: its code runs, its links lead somewhere, and it asks nothing of the network."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MADE = ("_build", "gallery", "generated")  # by Sphinx
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if not set(page.relative_to(DOCS).parts) & set(MADE)]
BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "GLOSSARY.md", "CHANGELOG.md")]
FENCE = re.compile(r"^(```+)([^\n`]*)\n(.*?)^\1[ \t]*$", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FRACTION = re.compile(r"[-+]?\d*\.\d+(?:e[-+]?\d+)?|[-+]?\d+e[-+]?\d+")
EFFORT = re.compile(r"\(\S+ s\)|after \d+ iterations?")
ROUNDING = 1e-6


def name_of(page):
    return str(page.relative_to(ROOT))


def is_examples(fence):
    return fence[2].strip() in ("pycon", "python") and fence[3].lstrip().startswith(">>>")


def is_script(fence):
    return fence[2].strip() == "python" and not is_examples(fence)


def blocks(text, wanted):
    """Pairs of the line a fenced block begins on and its code."""
    for fence in FENCE.finditer(text):
        if wanted(fence):
            yield text[: fence.start(3)].count("\n"), fence[3]


def with_blocks(pages, wanted):
    return [page for page in pages if any(blocks(page.read_text(), wanted))]


def examples(page):
    """All examples of a page, on their own lines, as one doctest with one namespace."""
    text = page.read_text()
    parser = doctest.DocTestParser()
    found = []
    for line, code in blocks(text, is_examples):
        for example in parser.get_examples(code, name_of(page)):
            example.lineno += line
            found.append(example)
    return doctest.DocTest(found, {"__name__": "__main__"}, name_of(page), str(page), 0, text)


class Figures(doctest.OutputChecker):
    """Lets fractions differ by a tenth or by two of their last digit, those below ``ROUNDING`` and efforts by more."""

    def check_output(self, want, got, optionflags):
        if super().check_output(want, got, optionflags):
            return True
        want, got = (EFFORT.sub("some effort", text) for text in (want, got))
        shown, made = FRACTION.findall(want), FRACTION.findall(got)
        rest = [FRACTION.sub("0.0", text) for text in (want, got)]
        return super().check_output(*rest, optionflags) and all(map(self.close, shown, made))

    @staticmethod
    def close(shown, made):
        a, b = float(shown), float(made)
        digits = len(shown.partition("e")[0].partition(".")[2])
        last = 0.0 if "e" in shown else 10.0**-digits
        return abs(a - b) <= max(0.1 * abs(a), 2.0 * last) * (1 + 1e-9) or max(abs(a), abs(b)) < ROUNDING


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("off by 0.18", "off by 0.19", True),
        ("off by 0.18", "off by 0.21", False),
        ("off by 3.4 of 12", "off by 3.5 of 13", False),
        ("residual 3.1e-15 after 1 iteration (0.01 s)", "residual 8.8e-16 after 9 iterations (2 s)", True),
        ("residual 3.1e-15 after 1 iteration (0.01 s)", "residual 8.8e-5 after 1 iteration (2 s)", False),
        ("gap 3.1e-03", "gap 3.2e-03", True),
        ("gap 3.1e-03", "gap 3.9e-03", False),
        ("x1  0.7\nx2  0.6", "x1  0.7", False),
    ],
)
def test_figures_are_compared_as_far_as_they_can_be_reproduced(want, got, same):
    assert Figures().check_output(want, got, OPTIONS) == same


@pytest.mark.parametrize("page", with_blocks(PAGES, is_examples), ids=name_of)
def test_the_examples_of_a_page_give_what_they_show(page):
    report = []
    runner = doctest.DocTestRunner(Figures(), optionflags=OPTIONS, verbose=False)
    runner.run(examples(page), out=report.append)
    assert not runner.failures, "".join(report)


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=name_of)
def test_prompts_stand_where_they_are_run(page):
    rest = FENCE.sub(lambda fence: "" if is_examples(fence) else fence[3], page.read_text())
    assert ">>>" not in rest, "examples with prompts belong in ```pycon blocks"


@pytest.mark.parametrize("page", with_blocks([*PAGES, ROOT / "README.md"], is_script), ids=name_of)
def test_the_scripts_of_a_page_run(page):
    namespace = {"__name__": "page"}
    for line, code in blocks(page.read_text(), is_script):
        code = "from __future__ import annotations\n" + "\n" * (line - 1) + code
        exec(compile(code, str(page), "exec"), namespace)


# ---- links -----------------------------------------------------------------------------------------------------------


def slug(heading):
    """The anchor that MyST, and GitHub, give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", "-")


def anchors(page):
    return {slug(heading) for heading in re.findall(r"^#+ +(.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)}


def exists(target):
    """Whether a file is there, or will be made by Sphinx from something that is."""
    if target.is_relative_to(DOCS / "gallery"):
        page = target.relative_to(DOCS / "gallery")
        if shown := re.fullmatch(r"sphx_glr_(\w+)_\d{3}\.png", page.name):
            page = page.parents[1] / shown[1]
        return page.stem == "index" or (ROOT / "examples" / page.with_suffix(".py")).exists()
    if target.is_relative_to(DOCS / "api" / "generated"):
        *module, name = target.stem.removesuffix("-function").split(".")
        return hasattr(importlib.import_module(".".join(module)), name)
    return target.exists()


def contents(page):
    """The pages that a page's tables of contents list."""
    for fence in FENCE.finditer(page.read_text()):
        if fence[2].strip() == "{toctree}":
            for entry in re.findall(r"^([^:\s]\S*)$", fence[3], re.MULTILINE):
                yield (page.parent / f"{entry}.md").resolve()


def links(page):
    text = FENCE.sub("", page.read_text())
    yield from re.findall(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "code", text))


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=name_of)
def test_every_link_within_the_project_leads_somewhere(page):
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert exists(target), f"{link} is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_includes_or_lists_is_there(page):
    for fence in FENCE.finditer(page.read_text()):
        directive, _, argument = fence[2].strip().partition("}")
        if directive in ("{include", "{image", "{figure"):
            assert exists((page.parent / argument.strip()).resolve()), argument
    for listed in contents(page):
        assert exists(listed), listed


def test_every_page_is_in_a_table_of_contents():
    listed = {DOCS / "index.md", *(entry for page in PAGES for entry in contents(page))}
    assert set(PAGES) <= listed, set(PAGES) - listed


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=name_of)
def test_no_page_shows_an_image_from_elsewhere(page):
    text = page.read_text()
    shown = re.findall(r"!\[[^\]]*\]\(([^)\s]+)", text) + re.findall(r"<(?:img|script|link)[^>]*", text)
    assert not [image for image in shown if "//" in image]


def test_every_guide_has_a_picture():
    for page in contents(DOCS / "guide" / "index.md"):
        assert re.search(r"^```{(?:figure|image)}", page.read_text(), re.MULTILINE), f"{page.name} has no picture"


def shown(page):
    """A page as its readers see it: without comments, in which the tests find what is only checked."""
    return re.sub(r"^<!--.*?^-->$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent != DOCS / "theory"], ids=name_of)
def test_guides_show_results_and_not_assertions(page):
    assert not re.search(r"^(?:>>> |\.\.\. +)assert\b", shown(page), re.MULTILINE)


@pytest.mark.parametrize(
    ("searched", "page"),
    [
        ("multiclass probability", "multiclass"),
        ("imbalanced data", "imbalanced"),
        ("missing values", "categories"),
        ("categories", "categories"),
        ("calibration", "calibration"),
        ("thresholds", "calibration"),
        ("feature importance", "importance"),
        ("time series", "time_series"),
        ("deployment", "deployment"),
        ("choosing a model", "choosing_model"),
    ],
)
def test_what_people_search_for_is_a_heading(searched, page):
    """The search of the manual looks at headings first."""
    headings = re.findall(r"^#+ +(.*)$", FENCE.sub("", (DOCS / "guide" / f"{page}.md").read_text()), re.MULTILINE)
    assert any(searched in heading.lower() for heading in headings)


def test_every_extra_is_in_the_page_on_installing():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (DOCS / "install.md").read_text()
    assert not [extra for extra in project["optional-dependencies"] if f'".[{extra}]"' not in page]


def test_hints_name_what_works_in_a_clone():
    """There is no gramian in any registry, so that an extra of a clone is what can be installed."""
    sources = [*(ROOT / "src").rglob("*.py"), *PAGES, ROOT / "README.md"]
    assert not [file for file in sources if re.search(r"pip install \S?gramian", file.read_text())]


def test_the_reader_of_model_files_has_thirty_lines():
    code = next(code for _, code in blocks((DOCS / "model_format.md").read_text(), is_script))
    assert len([line for line in code.splitlines() if line.strip()]) <= 30


# ---- the reference ---------------------------------------------------------------------------------------------------


REFERENCE = re.findall(r"^   ~?(gramian[\w.]*)$", (DOCS / "api.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("module", ["gramian", "gramian.kernels", "gramian.gram", "gramian.losses", "gramian.rkhs"])
def test_every_public_name_has_a_page_in_the_reference(module):
    names = importlib.import_module(module)
    for name in names.__all__:
        value = getattr(names, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert f"{module}.{name}" in REFERENCE, f"{module}.{name} is not in docs/api.md"


@pytest.mark.parametrize("name", [name for name in REFERENCE if name.count(".") == 1])
def test_signatures_name_parameters(name):
    value = getattr(importlib.import_module("gramian"), name.rpartition(".")[2], None)
    if inspect.isclass(value):
        kinds = {parameter.kind for parameter in inspect.signature(value).parameters.values()}
        assert not kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


def test_the_reference_lists_only_what_exists():
    for name in REFERENCE:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute) or importlib.util.find_spec(name), name
