"""Support vector machines against scikit-learn's (LIBSVM) and, where it is installed, scikit-learn-intelex's (oneDAL).

``pip install -r benchmarks/requirements-svm.txt`` brings the second peer; without it its lines are left out, and the
case says so.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import svm as libsvm
from sklearn.datasets import load_digits

from benchmarks.data import Split, load
from benchmarks.harness import Comparison, case
from benchmarks.peers import onedal
from gramian.estimators.svm import SVC, SVR

CACHE = 2000
ROWS = {"kin40k": 36_000, "protein": 20_000, "elevators": 14_940}
FASHION = Path("/usr/share/datasets/fashion-mnist")
IMAGES = 10_000


@case("svm")
def svm() -> Iterator[Comparison]:
    """Fit and predict of SVC and SVR on three sets, then ten classes."""
    if onedal is None:
        print("scikit-learn-intelex is not installed: its lines are left out.", file=sys.stderr)
    for name in ROWS:
        split = load(name)
        yield from classification(name, split)
        yield from regression(name, split)
    yield from ten_classes()


def classification(name: str, split: Split) -> Iterator[Comparison]:
    """SVC(C=10), the target split at its median."""
    middle = np.median(split.y_train)
    X, y = split.X_train[: ROWS[name]], split.y_train[: ROWS[name]] > middle
    options = {"C": 10.0, "gamma": 1 / X.shape[1], "cache_size": CACHE}
    peers = {"scikit-learn": libsvm} | ({} if onedal is None else {"scikit-learn-intelex": onedal})
    for against, module in peers.items():
        yield Comparison(
            name=f"SVC fit, n={len(X)} d={X.shape[1]}",
            ours=lambda: SVC(**options).fit(X, y),
            peer=lambda module=module: module.SVC(**options).fit(X, y),
            against=against,
            data=split.source,
            quality=lambda a, b: _accuracies(a, b, split.X_test, split.y_test > middle),
            repeats=2,
        )
    ours, peer = SVC(**options).fit(X, y), libsvm.SVC(**options).fit(X, y)
    yield _prediction("SVC", ours, peer, split)


def regression(name: str, split: Split) -> Iterator[Comparison]:
    """SVR(C=1, epsilon=0.1)."""
    X, y = split.X_train[: ROWS[name]], split.y_train[: ROWS[name]]
    options = {"C": 1.0, "epsilon": 0.1, "gamma": 1 / X.shape[1], "cache_size": CACHE}
    yield Comparison(
        name=f"SVR fit, n={len(X)} d={X.shape[1]}",
        ours=lambda: SVR(**options).fit(X, y),
        peer=lambda: libsvm.SVR(**options).fit(X, y),
        against="scikit-learn",
        data=split.source,
        quality=lambda a, b: _accuracies(a, b, split.X_test, split.y_test),
        repeats=2,
    )


def ten_classes() -> Iterator[Comparison]:
    """Ten classes, one against one."""
    X, y, source = images()
    options = {"C": 10.0, "gamma": "scale", "cache_size": CACHE}
    yield Comparison(
        name=f"SVC fit, 10 classes, n={len(X)} d={X.shape[1]}",
        ours=lambda: SVC(**options).fit(X, y),
        peer=lambda: libsvm.SVC(**options).fit(X, y),
        against="scikit-learn",
        data=source,
        quality=lambda a, b: f"{len(a.support_)} / {len(b.support_)} support vectors, gap {a.certificate_.gap:.0e}",
        repeats=2,
    )


def images() -> tuple[np.ndarray, np.ndarray, str]:
    """Fashion-MNIST from the Debian package, or scikit-learn's digits, repeated with noise."""
    if FASHION.is_dir():
        X = _idx(FASHION / "train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:IMAGES] / 255.0
        return X, _idx(FASHION / "train-labels-idx1-ubyte.gz", 8)[:IMAGES], "Fashion-MNIST"
    X, y = load_digits(return_X_y=True)
    rows = np.arange(IMAGES) % len(X)
    noise = np.random.default_rng(0).normal(0.0, 1.0, (IMAGES, X.shape[1]))
    return (X[rows] + noise) / 16.0, y[rows], "digits, repeated with noise"


def _idx(path: Path, header: int) -> np.ndarray:
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def _prediction(what: str, ours: Any, peer: Any, split: Split) -> Comparison:
    return Comparison(
        name=f"{what} predict, {len(split.X_test)} rows, {len(ours.support_)} support vectors",
        ours=lambda: ours.predict(split.X_test),
        peer=lambda: peer.predict(split.X_test),
        against="scikit-learn",
        data=split.source,
        quality=lambda a, b: f"{np.mean(a != b):.2%} differ",
    )


def _accuracies(ours: Any, peer: Any, X: np.ndarray, y: np.ndarray) -> str:
    scores = f"score {ours.score(X, y):.4f} / {peer.score(X, y):.4f}"
    return f"{scores}, gap {ours.certificate_.gap:.0e}"
