"""The page in a real browser: no error, no request, both themes, a phone.

It needs Debian's packages chromium and chromium-driver, and is skipped, saying so, where they are not there.
"""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import chromium
import gramian
from gramian.kernels import RBF


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.standard_normal((80, 3)),
        columns=[
            "<script>window.hacked = 1</script>",
            '<img src="x" onerror="window.hacked = 1">',
            "a rather long name",
        ],
    )
    y = np.array(["<b>one</b>", "two", "three"])[np.digitize(X.iloc[:, 0], [-0.5, 0.5])]
    path = tmp_path_factory.mktemp("page") / "report.html"
    return gramian.report(gramian.SVC(kernel=RBF(1.0)).fit(X, y), X, y, path)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((160, 6)), columns=[f"measurement {j}" for j in range(6)])
    X["remark"] = rng.choice([letter * 40 for letter in "abc"], 160)
    y = 1e5 * (3 + np.sin(X.iloc[:, 0]) + (X["remark"] > "b") + 0.1 * rng.standard_normal(160))
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["ridge"], cv=2, random_state=0)
    path = tmp_path_factory.mktemp("page") / "searched.html"
    return gramian.report(model.fit(X[:100], y[:100]), X[100:], y[100:], path)


@pytest.fixture
def open_page(browser, page):
    def opened(width=1200, theme="light", media=""):
        chromium.seen_on(browser, width, theme, media)
        browser.get(page.as_uri())
        return browser

    return opened


def background(browser):
    return browser.execute_script("return getComputedStyle(document.body).backgroundColor")


def lightness(colour):
    return sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3


def test_no_error_and_no_request(open_page, page):
    browser = open_page()
    browser.get_log("performance")
    open_page()
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert page.as_uri() in asked
    assert [url for url in asked if not url.startswith((page.as_uri(), "data:"))] == []


def test_user_text_runs_nowhere(open_page):
    browser = open_page()
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.images.length") == 0
    assert browser.execute_script("return document.scripts.length") == 1
    text = browser.execute_script("return document.body.textContent")
    assert "<script>window.hacked = 1</script>" in text
    assert "<b>one</b>" in browser.execute_script(
        "return [...document.querySelectorAll('svg text')].map(t => t.textContent).join(' ')"
    )


def test_the_theme_follows_the_wish_and_the_button(open_page):
    browser = open_page(theme="light")
    assert lightness(background(browser)) > 200
    ink = "return getComputedStyle(document.querySelector('svg text')).fill"
    dark_ink = browser.execute_script(ink)
    button = browser.find_element("id", "theme")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert lightness(background(browser)) < 60
    assert button.get_attribute("aria-pressed") == "true"
    assert lightness(browser.execute_script(ink)) > 180 > lightness(dark_ink)
    button.click()
    assert lightness(background(browser)) > 200
    browser = open_page(theme="dark")
    assert lightness(background(browser)) < 60
    browser.find_element("id", "theme").click()
    assert lightness(background(browser)) > 200


@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_a_phone_and_a_desk(open_page, width):
    browser = open_page(width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    widths = browser.execute_script("return [...document.querySelectorAll('svg')].map(s => s.clientWidth)")
    assert all(0 < w <= width for w in widths)
    top = browser.execute_script("return document.querySelector('.score').getBoundingClientRect().bottom")
    assert top < 900  # the score is on the first screen
    button = browser.find_element("id", "theme").size
    assert min(button["width"], button["height"]) >= 44  # a thumb can hit it


def test_it_prints_in_black_on_white(open_page):
    browser = open_page(theme="dark", media="print")
    assert background(browser) == "rgb(255, 255, 255)"
    assert browser.execute_script("return getComputedStyle(document.getElementById('theme')).display") == "none"
    assert lightness(browser.execute_script("return getComputedStyle(document.body).color")) < 80


def test_a_screen_reader_finds_its_way(open_page):
    browser = open_page()
    levels = browser.execute_script("return [...document.querySelectorAll('h1, h2, h3')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    images = [n["name"]["value"] for n in tree if n.get("role", {}).get("value") == "image"]
    assert len(images) == len(browser.find_elements("css selector", "svg"))
    assert all(len(name) > 20 for name in images)
    assert browser.execute_script("return document.documentElement.lang") == "en"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_can_be_read_on_a_phone(open_page, theme):
    browser = open_page(390, theme)
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('.picture svg')].flatMap(svg => {"
        "  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;"
        "  return [...svg.querySelectorAll('text')].map(t => scale * parseFloat(getComputedStyle(t).fontSize));})"
    )
    assert len(sizes) > 20
    assert min(sizes) >= 10.5


@pytest.mark.parametrize("width", [390, 1280])
def test_cards_are_of_equal_height_and_no_table_is_cut_off(browser, searched, width):
    chromium.seen_on(browser, width)
    browser.get(searched.as_uri())
    heights = browser.execute_script("return [...document.querySelectorAll('.cards .card')].map(c => c.offsetHeight)")
    assert len(heights) >= 5
    assert max(heights) - min(heights) <= 1
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    board, card = browser.execute_script(
        "const t = document.querySelector('.board'); return [t.scrollWidth, t.parentElement.clientWidth]"
    )
    assert board <= card
    names = browser.execute_script("return [...document.querySelectorAll('.board .name code')].map(c => c.textContent)")
    assert any("RBF" in name for name in names)
