"""The page in a real browser: points are added and dragged, links open what they say, nothing comes from elsewhere.

It needs Debian's packages chromium and chromium-driver, and is skipped, saying so, where they are not there.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from urllib.parse import quote

import numpy as np
import pytest

import chromium

pytest.importorskip("selenium", reason="selenium is not installed: pip install '.[test]'")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


@pytest.fixture(scope="module")
def address():
    command = [sys.executable, "-m", "gramian", "play", "--no-open", "--port", "0"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


class Page:
    """The page as a person uses it."""

    def __init__(self, browser, address):
        self.browser, self.address = browser, address

    def open(self, fragment="", width=1200, theme="light"):
        chromium.seen_on(self.browser, width, theme)
        self.browser.get("about:blank")
        self.browser.get(f"{self.address}{fragment}")
        return self.answered()

    def answered(self, beyond=0):
        """Wait until an answer came, after so many."""
        self.wait(lambda: self.count() > beyond)
        return self

    def wait(self, met, seconds=30):
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, self.one("main").text[:500]
            time.sleep(0.02)

    def count(self):
        found = self.browser.execute_script("return document.querySelector('section')?.dataset.answered")
        return int(found or 0)

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def set(self, selector, value):
        """Put a slider somewhere, or choose in a list."""
        event = "change" if self.one(selector).tag_name == "select" else "input"
        self.browser.execute_script(
            "const [node, value, event] = arguments; node.value = value; node.dispatchEvent(new Event(event));",
            *(self.one(selector), value, event),
        )

    def click_in(self, selector, x, y, met, tries=6):
        """Click beside the middle of a picture until it shows: a picture that just moved is clicked again."""
        for _ in range(tries):
            frame = self.one(selector)
            ActionChains(self.browser).move_to_element_with_offset(frame, x, y).click().perform()
            end = time.monotonic() + 10
            while time.monotonic() < end:
                if met():
                    return
                time.sleep(0.02)
        raise AssertionError(f"{tries} clicks in {selector} changed nothing: {self.one('main').text[:500]}")

    def press(self, text):
        next(b for b in self.all("button") if b.text == text).click()

    def points(self):
        return len(self.all("svg .mark"))

    def numbers(self):
        """The numbers on the screen."""
        pairs = "(n) => [n.dataset.number, Number(n.dataset.value)]"
        script = f"return [...document.querySelectorAll('[data-number]')].map({pairs})"
        return dict(self.browser.execute_script(script))

    def reproduced(self):
        """The numbers on the screen, after the Python on the screen has given the same."""
        space = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(self.one("#python").get_attribute("textContent"), space)
        shown = self.numbers()
        for name, value in shown.items():
            np.testing.assert_allclose(float(space["numbers"][name]), value, rtol=1e-6, atol=1e-9, err_msg=name)
        return shown

    def clean(self):
        """Nothing came from elsewhere, and the console is silent."""
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        host = self.address.split("/")[2]
        first_tab = ("about:", "chrome:", "chrome-untrusted:")  # requests of the browser itself
        own = (f"http://{host}/", "data:", "blob:", *first_tab)
        foreign = [url for url in sent if not url.startswith(own)]
        assert not foreign, foreign
        assert [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.fixture
def page(browser, address):
    made = Page(browser, address)
    yield made
    made.clean()


def link(room, **state):
    return f"#{room}?{quote(json.dumps(state))}"


ROOMS = ["plane", "regression", "features", "duality", "approximation", "mixtures", "own"]


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rooms_show_what_their_python_gives(page, room):
    page.open(f"#{room}")
    assert page.one("#error").text == ""
    assert page.points() > 0
    shown = page.reproduced()
    assert shown or room == "mixtures"
    for figure in page.all("figure"):
        assert figure.find_element(By.CSS_SELECTOR, "figcaption").text


@pytest.mark.parametrize(("room", "theme"), [(room, ("light", "dark")[i % 2]) for i, room in enumerate(ROOMS)])
def test_rooms_are_readable_on_a_phone_and_labelled(page, room, theme):
    page.open(f"#{room}", width=390, theme=theme)
    wide = page.browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= 390
    unlabelled = page.browser.execute_script(
        "return [...document.querySelectorAll('input, select, textarea')].filter("
        "(n) => !n.labels?.length && !n.getAttribute('aria-label')).map((n) => n.outerHTML)"
    )
    assert unlabelled == []
    # Ink on paper in either theme: far from each other in lightness.
    light = page.browser.execute_script(
        "const sum = (c) => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0);"
        "const style = getComputedStyle(document.body); return [sum(style.color), sum(style.backgroundColor)]"
    )
    assert (light[0] < light[1]) == (theme == "light")
    assert abs(light[0] - light[1]) > 400


def test_points_are_added_dragged_and_deleted(page):
    page.open("#plane")
    before, count = page.points(), page.count()
    frame = page.one("svg .frame")
    ActionChains(page.browser).move_to_element_with_offset(frame, 40, -60).click().perform()
    page.answered(count)
    assert page.points() == before + 1
    primal, count = page.numbers()["primal"], page.count()
    mark = page.all("svg .mark")[-1]
    where = mark.get_attribute("aria-label")
    ActionChains(page.browser).click_and_hold(mark).move_by_offset(30, 0).move_by_offset(30, 30).release().perform()
    page.answered(count)
    assert page.points() == before + 1
    page.wait(lambda: page.all("svg .mark")[-1].get_attribute("aria-label") != where)
    page.wait(lambda: page.numbers()["primal"] != primal)
    page.reproduced()
    assert "λ =" in page.one("#pointer").text
    count = page.count()
    page.all("svg .mark")[-1].send_keys(Keys.ARROW_LEFT)
    page.answered(count)
    count = page.count()
    page.all("svg .mark")[-1].send_keys(Keys.DELETE)
    page.answered(count)
    assert page.points() == before


def test_kernel_and_certificate(page):
    page.open("#plane")
    box, count = page.one("#kernel"), page.count()
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys("2*RBF(0.5) + Linear(")
    page.wait(lambda: "not a kernel expression" in page.one("#error").text)
    box.send_keys(")")
    page.wait(lambda: page.one("#error").text == "" and page.count() > count + 1)
    page.wait(lambda: "left.factor" in page.one(".sliders").text)
    assert "converged: duality gap" in page.one("#certificate").text
    assert page.numbers()["gap"] < 1e-3
    page.one("#title").click()
    before = page.numbers()["primal"]
    page.set("[id='kernel.left.kernel.lengthscale']", "-0.5")
    page.wait(lambda: page.numbers()["primal"] != before)
    page.wait(lambda: "RBF(0.3162)" in page.one("#kernel").get_attribute("value"))
    before = page.numbers()["primal"]
    page.set("#C", "1")
    page.wait(lambda: page.numbers()["primal"] != before)
    page.reproduced()
    for machine in ("logistic", "gp", "pegasos"):
        count = page.count()
        page.set("#machine", machine)
        page.answered(count)
        assert page.one("#error").text == ""


def test_a_link_opens_the_same_picture(page):
    state = {"points": [[-1, 0, 0], [1, 0, 1], [0.5, 1, 1]], "kernel": "Linear()", "C": 10, "machine": "svc"}
    page.open(link("plane", **state))
    assert page.points() == 3
    assert page.one("#kernel").get_attribute("value") == "Linear()"
    first = page.reproduced()
    page.set("#C", "-1")
    page.wait(lambda: page.numbers()["primal"] != first["primal"])
    page.wait(lambda: quote('"C":0.1') in page.browser.current_url)
    changed, address = page.numbers(), page.browser.current_url
    page.open(f"#{address.partition('#')[2]}")
    assert page.numbers() == changed
    page.open("#plane?%7Bbroken")
    assert page.points() > 3


def test_a_point_outside_is_explained(page):
    page.open(link("plane", points=[[-1, 0, 0], [9, 0, 1]]))
    assert "outside the picture" in page.one("#error").text


def test_many_clicks(page):
    """Thousands of clicks end with as many points as there may be, and a page that answers."""
    page.open("#plane")
    page.browser.execute_script(
        """
        const frame = document.querySelector("svg .frame"), box = frame.getBoundingClientRect();
        for (let i = 0; i < 10000; i++) {
          const [u, v] = [2 + (i * 37) % (box.width - 4), 2 + (i * 91) % (box.height - 4)];
          const at = { clientX: box.x + u, clientY: box.y + v, button: 0, bubbles: true };
          frame.dispatchEvent(new PointerEvent("pointerdown", at));
          frame.dispatchEvent(new PointerEvent("pointerup", at));
        }"""
    )
    page.wait(lambda: page.points() == 500)
    count = page.count()
    page.set("#C", "-2")
    page.answered(count)
    page.wait(lambda: "500 points" in page.one("#says").text)


def test_evidence_map_sets_hyperparameters(page):
    page.open("#regression")
    page.wait(lambda: "highest place" in page.all("figure")[2].text)
    page.wait(lambda: page.one("#across").get_attribute("value") == "1")
    before = page.numbers()["evidence"]
    page.click_in("#evidence-map .frame", 20, 20, lambda: page.numbers()["evidence"] != before)
    page.wait(lambda: "RBF(0.7)" not in page.one("#kernel").get_attribute("value"))
    clicked = page.reproduced()["evidence"]
    page.press("Maximise the evidence")
    page.wait(lambda: page.numbers()["evidence"] > max(clicked, before))


def test_em_step_by_step(page):
    page.open("#mixtures")
    for step in (1, 2):
        count = page.count()
        page.press("One step of EM")
        page.answered(count)
        assert f"After M {step}" in page.all("figcaption")[1].text


def test_features_compare_two_points(page):
    page.open("#features")
    assert page.numbers()["errors_on_the_line"] > page.numbers()["errors_lifted"] == 0
    before = page.numbers()["k"]
    page.click_in("#all-pairs .frame", 30, 25, lambda: page.numbers()["k"] != before)
    assert "distance" in page.one("#pointer").text
    page.reproduced()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_multipliers_by_hand(page):
    page.open("#duality")
    first = page.numbers()
    assert first["bound"] < first["optimum"] < first["value"]
    page.set("#lam0", "0.9")
    page.wait(lambda: page.numbers()["bound"] != first["bound"])
    page.one("#balance").click()
    page.wait(lambda: "minus infinity" in page.one("#says").text)
    page.one("#balance").click()
    page.press("The best")
    page.wait(lambda: abs(page.numbers().get("bound", 0.0) - first["optimum"]) < 1e-6)
    page.reproduced()


def test_landmarks(page):
    page.open("#approximation")
    count = page.count()
    page.set("#method", "nystrom")
    page.answered(count)
    assert len(page.all("svg .mark.land")) == 10
    error = page.reproduced()["trace_error"]
    page.set("#landmarks", "30")
    page.wait(lambda: page.numbers()["trace_error"] < error)


def test_own_table(page, tmp_path):
    rows = ["a;name;b;price"]
    rows += [f'{x};"n ""{x}"" ;{i}";{(x * 7) % 5};{100 + 2 * x + i}' for i, x in enumerate(range(30))]
    table = tmp_path / "table.csv"
    table.write_text("\n".join([*rows, ";gap;1;2", ""]))
    page.open("#own")
    page.one("#file").send_keys(str(table))
    page.wait(lambda: "30 rows; the function misses" in page.one("#says").text)
    assert "left out: 1." in page.one("figcaption").text
    assert page.points() == 30
    assert page.reproduced()["error"] < page.numbers()["deviation"]
    page.set("#column2", "b")
    page.wait(lambda: "another class" in page.one("#says").text)
    words = tmp_path / "words.csv"
    words.write_text("only,words\na,b\n")
    page.one("#file").send_keys(str(words))
    page.wait(lambda: "needs a header" in page.one("#error").text)


def test_exports(page):
    page.open("#plane")
    size = page.browser.execute_async_script(
        """
        const done = arguments[0];
        import(new URL("save.js", location.href.split("#")[0])).then(async ({ asPng, standalone }) => {
          const svg = document.querySelector("figure svg");
          const blob = await asPng(svg), bitmap = await createImageBitmap(blob);
          const text = standalone(svg), parsed = new DOMParser().parseFromString(text, "image/svg+xml");
          const errors = parsed.querySelectorAll("parsererror").length;
          done([blob.size, bitmap.width, bitmap.height, errors, text.includes("var(")]);
        });"""
    )
    assert size[0] > 10_000
    assert size[1:] == [1320, 1320, 0, False]


def test_buttons_copy_and_save(page, tmp_path):
    page.open("#plane")
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    allowed = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    page.browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": allowed})
    python = page.one("#python").get_attribute("textContent")
    for what, text in (("Python", python), ("link", page.browser.current_url.partition("#")[2])):
        page.press(f"Copy {what}")
        page.wait(lambda what=what: f"{what} copied" in page.one(".found [role=status]").text)
        assert text in page.browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    for what in ("script", "SVG", "PNG"):
        page.press(f"Save {what}")
    page.wait(lambda: sorted(path.suffix for path in tmp_path.iterdir()) == [".png", ".py", ".svg"])
    assert (tmp_path / "gramian-plane.py").read_text() == python
    assert (tmp_path / "gramian-plane.svg").read_text().startswith("<svg")
    assert (tmp_path / "gramian-plane.png").read_bytes().startswith(b"\x89PNG")


def test_a_slow_solve_is_shown_and_cancelled(page):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.9, 2.9, (1200, 2)).round(2)
    points = [[*row, int(c)] for row, c in zip(X.tolist(), rng.integers(0, 2, len(X)), strict=True)]
    page.open(link("plane", points=points[:20]))
    page.browser.get(f"{page.address}{link('plane', points=points, machine='ramp', kernel='RBF(0.2)')}")
    page.wait(lambda: "Cancel" in page.one("#busy").text)
    page.wait(lambda: "still being solved" in page.all("figcaption")[1].text)
    page.press("Cancel")
    page.wait(lambda: page.one("#busy").text == "")
    page.set("#machine", "svc")
    page.wait(lambda: "Support vector machine on 1200 points" in page.one("#says").text)


def test_theory_is_there(page):
    page.browser.get(f"{page.address}theory.html?page=support_vectors")
    page.wait(lambda: page.all("h2"))
    assert "Pegasos" in page.one("main").text
    assert "\\" not in page.one("main .formula").text
    assert page.all(".formula sub")
