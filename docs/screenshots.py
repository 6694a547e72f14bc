"""Make the pictures of ``docs/play.md``, a screenshot of each room, with Chromium and its driver.

Run from anywhere: ``python docs/screenshots.py`` (``apt-get install chromium chromium-driver``, and selenium).
"""

import io
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from sklearn.datasets import load_iris

from gramian.play.asked import Asked
from gramian.play.samples import answer as draw

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import chromium

FOLDER = Path(__file__).parent / "play"


def sample(name: str, size: int, columns: int = 3) -> list[list[float]]:
    """Points of the page's own samples."""
    return [
        row[:columns]
        for row in draw(Asked({"sample": name, "size": size}))["points"]
    ]


def iris() -> dict[str, object]:
    """Petals of three kinds of iris."""
    X, y = load_iris(return_X_y=True)
    points = [
        [*row, int(c)] for row, c in zip(X[:, 2:].tolist(), y, strict=True)
    ]
    names = ["petal length", "petal width", "kind"]
    return {
        "points": points,
        "names": names,
        "labels": ["1", "2", "3"],
        "view": [0.5, 7.5, -0.2, 2.8],
    }


STATES = {
    "plane": {"points": sample("moons", 60), "kernel": "RBF(0.8)", "C": 2},
    "regression": {"paths": 4, "loss": "none"},
    "features": {},
    "duality": {},
    "approximation": {
        "method": "nystrom",
        "landmarks": 12,
        "points": sample("rings", 100, 2),
    },
    "mixtures": {"points": sample("blobs", 90, 2), "steps": 6},
    "own": iris(),
}


def main() -> None:
    """Open each room, wait for its pictures, and keep what a window shows."""
    FOLDER.mkdir(exist_ok=True)
    command = "-m gramian play --no-open --port 0"
    with (
        tempfile.TemporaryDirectory() as profile,
        subprocess.Popen(
            [sys.executable, *command.split()],
            stdout=subprocess.PIPE,
            text=True,
        ) as server,
    ):
        address = server.stdout.readline().split()[-1]
        browser = chromium.started(profile)
        chromium.seen_on(browser, 1180)
        browser.execute_cdp_cmd(
            "Emulation.setScrollbarsHidden", {"hidden": True}
        )
        for room, state in STATES.items():
            browser.get("about:blank")
            browser.get(f"{address}#{room}?{quote(json.dumps(state))}")
            time.sleep(6)  # the map of the evidence comes row by row
            shot = Image.open(
                io.BytesIO(browser.get_screenshot_as_png())
            ).convert("RGB")
            shot.quantize(200).save(FOLDER / f"{room}.png", optimize=True)
        browser.quit()
        server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
