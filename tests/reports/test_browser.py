"""The page in a real browser: no error, no request, both themes, a phone.

It needs Debian's packages chromium and chromium-driver, and is skipped, saying so, where they are not there.
"""

import json
import shutil
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import gramian
from gramian.kernels import RBF

selenium = pytest.importorskip("selenium", reason="selenium is not installed: pip install gramian[test]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no chromium with its driver; on Debian: apt-get install chromium chromium-driver",
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


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
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def open_page(browser, page):
    def opened(width=1200, theme="light", media=""):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
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
