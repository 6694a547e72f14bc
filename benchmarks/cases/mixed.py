"""Mixed tables: ten public ones with categories, gaps and dates, and two that are made up, with texts and a rare class.

Ours, under a time limit, beside LightGBM, CatBoost, scikit-learn's histogram boosting and a tuned support vector
pipeline (``pip install -r benchmarks/requirements-tables.txt``; a peer that is not installed is left out, and said to
be). The public tables come from packages of R that Debian has (``SETS`` names them) through ``Rscript``; one whose
package is missing is left out, with a line that says so. A quarter of the rows is held out, by a seed.

``GRAMIAN_MIXED="Hitters Soybean"`` chooses some of the tables, ``GRAMIAN_MIXED_LIMIT`` the seconds allowed (30).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

from benchmarks.harness import Comparison, case
from benchmarks.peers import catboost, lightgbm
from gramian import AutoKernelClassifier, AutoKernelRegressor

PATIENCE, ROUNDS = 50, 2000
WORDS = 100
"""Words of a text that peers are given, at most."""
TUNED = 3000
"""Rows that the support vector pipeline is tuned on, at most."""
SVM_ROWS = 12_000
"""Rows that it is fitted to, at most."""
OURS = "gramian"


OTHERS = [f"{kind}_{name}" for kind in ("rawpoll", "adjpoll") for name in ("clinton", "johnson", "mcmullin")]
POLLS = ((*OTHERS, "adjpoll_trump"), 20_000, ("startdate", "enddate"))
"""What other columns say of the same polls is left out."""


@dataclass(frozen=True)
class Source:
    """A table in a package of R: the target, what is left out, and texts and dates among the columns."""

    package: str  # Of R; Debian's is ``r-cran-`` and this in small letters
    name: str  # Of the data
    target: str
    drop: tuple[str, ...] = ()
    rows: int = 20_000  # At most
    dates: tuple[str, ...] = ()


SETS = {
    "ames": Source("modeldata", "ames", "Sale_Price"),
    "Sacramento": Source("modeldata", "Sacramento", "price"),
    "Chicago": Source("modeldata", "Chicago", "ridership", dates=("date",)),
    "SLID": Source("carData", "SLID", "wages"),
    "polls": Source("dslabs", "polls_us_election_2016", "rawpoll_trump", *POLLS),
    "attrition": Source("modeldata", "attrition", "Attrition"),
    "credit": Source("modeldata", "credit_data", "Status"),
    "wa_churn": Source("modeldata", "wa_churn", "churn"),
    "lending_club": Source("modeldata", "lending_club", "Class"),
    "Soybean": Source("mlbench", "Soybean", "Class"),
}


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to learn from and rows held out."""

    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    texts: tuple[str, ...] = ()

    @property
    def classes(self) -> bool:
        """Whether there are classes to predict."""
        return self.y.dtype.kind not in "iuf"


@dataclass
class Board:
    """Scores of everybody on all tables so far."""

    scores: dict[str, dict[str, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        names = [n for n in PEERS if all(n in s for s in self.scores.values())]
        ranks = {n: [1 + sum(s[o] < s[n] for o in names) for s in self.scores.values()] for n in names}
        mean = ", ".join(f"{n} {np.mean(r):.2f}" for n, r in sorted(ranks.items(), key=lambda each: np.mean(each[1])))
        against = []
        for n in names[1:]:
            won = sum(s[OURS] < s[n] for s in self.scores.values())
            against.append(f"{n} {won}:{len(self.scores) - won}")
        return f"mean rank on {len(self.scores)} tables: {mean}; {OURS} wins and loses against {', '.join(against)}"


@case("mixed")
def mixed() -> Iterator[Comparison]:
    """Fit, and predict the rows held out."""
    board = Board()
    for name in os.environ.get("GRAMIAN_MIXED", " ".join([*SETS, *MADE])).split():
        if (table := table_of(name)) is None:
            print(f"mixed: {name} is left out: Rscript or its R package is missing.", file=sys.stderr)
        else:
            yield compared(table, board)
            print(f"mixed: {board}", file=sys.stderr)


def limit() -> float:
    """Seconds allowed to ours."""
    return float(os.environ.get("GRAMIAN_MIXED_LIMIT", "30"))


def compared(table: Table, board: Board) -> Comparison:
    """All of them on one table."""
    what = "AutoKernelClassifier" if table.classes else "AutoKernelRegressor"
    n, d = table.X.shape
    others = [name for name in PEERS if name != OURS and PEERS[name] is not None]
    return Comparison(
        name=f"{table.name}, {what}, {limit():g} s, n={n} d={d}",
        ours=lambda: judged([OURS], table),
        peer=lambda: judged(others, table),
        against=f"{', '.join(others)}, one after the other",
        quality=lambda a, b: told(table, a | b, board),
        data=f"{table.name}, one 75/25 split",
        once=True,
    )


def judged(names: list[str], table: Table) -> dict[str, tuple[float, float, float]]:
    """Score, further figure and seconds of each."""
    found = {}
    for name in names:
        begun = time.perf_counter()
        predicted = PEERS[name](table)
        seconds = time.perf_counter() - begun
        found[name] = (*figures(table, predicted), seconds)
    return found


def figures(table: Table, predicted: Any) -> tuple[float, float]:
    """RMSE and R², or log-loss and error."""
    y = table.y_test
    if not table.classes:
        error = float(np.mean((predicted - y) ** 2))
        return float(np.sqrt(error)), 1.0 - error / float(np.var(y))
    P, labels = np.clip(predicted, 1e-15, None), np.unique(table.y)
    P = P / P.sum(axis=1, keepdims=True)
    if labels.size == 2:
        return float(log_loss(y, P, labels=labels)), float(roc_auc_score(y == labels[1], P[:, 1]))
    return float(log_loss(y, P, labels=labels)), float(np.mean(labels[P.argmax(axis=1)] != y))


def told(table: Table, found: dict[str, tuple[float, float, float]], board: Board) -> str:
    """Everybody's figures, and a line for the ranks."""
    board.scores[table.name] = {name: score for name, (score, _, _) in found.items()}
    binary = table.classes and np.unique(table.y).size == 2
    names = "log-loss, AUC" if binary else "log-loss, error" if table.classes else "RMSE, R²"
    each = [f"{name} {score:.4g}, {other:.3f} ({seconds:.1f} s)" for name, (score, other, seconds) in found.items()]
    return f"{names}: {'; '.join(each)}"


# ---- tables -------------------------------------------------------------------------------------------------------


def table_of(name: str) -> Table | None:
    """A quarter of the rows held out, by class; None where the package is missing."""
    texts: tuple[str, ...] = ()
    if name in MADE:
        frame, target, texts = MADE[name]()
    elif (frame := _from_r(SETS[name])) is not None:
        target = SETS[name].target
    else:
        return None
    frame = frame[frame[target].notna()]
    X, y = frame.drop(columns=target), frame[target].to_numpy()
    strata = None if y.dtype.kind in "iuf" else y
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=strata)
    return Table(name, X_train, y_train, X_test, y_test, texts)


def _from_r(source: Source) -> Any:
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.csv"
        load = f'e <- new.env(); data("{source.name}", package="{source.package}", envir=e)'
        pick = f'd <- if (exists("{source.name}", e)) e${source.name} else {source.package}::{source.name}'
        script = f'{load}; {pick}; write.csv(as.data.frame(d), "{out}", row.names=FALSE, na="")'
        done = subprocess.run(["Rscript", "-e", script], check=False, capture_output=True)
        if done.returncode:
            return None
        frame = pd.read_csv(out, keep_default_na=False, na_values=[""])
    frame = frame.drop(columns=list(source.drop))
    for name in source.dates:
        frame[name] = pd.to_datetime(frame[name])
    return frame.sample(min(len(frame), source.rows), random_state=0).reset_index(drop=True)


def houses(n: int = 1500, seed: int = 0) -> tuple[Any, str, tuple[str, ...]]:
    """Prices of houses, with a short text that tells what no column does."""
    rng = np.random.default_rng(seed)
    city = rng.choice([f"town {c}" for c in "ABCDEFGH"], n, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.07, 0.05, 0.03])
    worth = dict(zip(sorted(set(city)), [0.5, 0.2, 0.0, -0.2, 0.8, -0.4, 0.1, 0.3], strict=False))
    area, built = rng.gamma(9.0, 13.0, n) + 30.0, rng.integers(1890, 2024, n)
    said = {
        "sea view": 0.35,
        "large garden": 0.15,
        "needs work": -0.3,
        "new kitchen": 0.12,
        "near station": 0.1,
        "busy road": -0.15,
        "quiet street": 0.08,
        "roof terrace": 0.2,
        "damp cellar": -0.2,
        "two bathrooms": 0.1,
    }
    has = rng.random((n, len(said))) < 0.22
    fill = rng.choice(["lovely home", "family house", "must be seen", "offered by owner", "available now"], n)
    words = [" ".join([f, *(w for w, h in zip(said, row, strict=True) if h)]) for f, row in zip(fill, has, strict=True)]
    sold = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 1800, n), unit="D")
    lot = area * rng.uniform(1.0, 6.0, n)
    age = (2024 - built) / 60.0
    log = 12.0 + 0.9 * np.log(area / 100.0) + np.vectorize(worth.get)(city) - 0.25 * age + 0.1 * age**2
    log += has @ np.array(list(said.values())) + 0.1 * np.log(lot / area) + 0.0002 * (sold - sold.min()).days
    log += 0.12 * rng.standard_normal(n)
    frame = pd.DataFrame({"area": area.round(), "built": built, "city": city, "lot": lot.round(), "sold": sold})
    frame["rooms"] = np.clip((area / 25 + rng.standard_normal(n)).round(), 1, 12)
    frame["energy"] = rng.choice(list("ABCDEFG"), n)
    frame["description"], frame["reference"] = words, [f"R{i:06d}" for i in rng.permutation(n)]
    for name, share in (("lot", 0.2), ("energy", 0.3), ("built", 0.05)):
        frame.loc[rng.random(n) < share, name] = np.nan if name != "energy" else None
    return frame.assign(price=np.exp(log).round(-2)), "price", ("description",)


def churn(n: int = 4000, seed: int = 0) -> tuple[Any, str, tuple[str, ...]]:
    """Customers who leave, about one in eleven."""
    rng = np.random.default_rng(seed)
    tenure, charge, calls = rng.gamma(1.5, 18.0, n), rng.gamma(6.0, 11.0, n), rng.poisson(1.2, n)
    contract = rng.choice(["monthly", "one year", "two years"], n, p=[0.5, 0.3, 0.2])
    payment = rng.choice(["card", "transfer", "check", "other"], n)
    region = rng.choice([f"region {i:02d}" for i in range(30)], n)
    login = rng.exponential(20.0, n)
    f = -2.9 - 0.03 * tenure + 0.012 * charge + 0.45 * calls + 0.02 * login
    f += np.select([contract == "one year", contract == "two years"], [-1.0, -2.0], 0.3)
    f += 0.5 * (payment == "check") + 0.03 * np.vectorize(lambda r: int(r[-2:]) % 7 - 3)(region)
    f += 0.5 * ((charge > 80) & (contract == "monthly"))
    left = rng.random(n) < 1.0 / (1.0 + np.exp(-f))
    seen = pd.Timestamp("2026-01-31") - pd.to_timedelta(login.round(), unit="D")
    frame = pd.DataFrame({"tenure": tenure.round(1), "charge": charge.round(2), "calls": calls, "last_login": seen})
    frame["contract"], frame["payment"], frame["region"] = contract, payment, region
    frame["customer"] = rng.permutation(n) + 10**6
    frame.loc[rng.random(n) < 0.1, "charge"] = np.nan
    frame.loc[rng.random(n) < 0.1, "payment"] = None
    return frame.assign(left=np.where(left, "yes", "no")), "left", ()


MADE: dict[str, Callable[[], tuple[Any, str, tuple[str, ...]]]] = {"houses": houses, "churn": churn}


# ---- ours ---------------------------------------------------------------------------------------------------------


def ours(table: Table) -> Any:
    """The automatic estimator as it comes."""
    if table.classes:
        return AutoKernelClassifier(limit(), random_state=0).fit(table.X, table.y).predict_proba(table.X_test)
    return AutoKernelRegressor(limit(), random_state=0).fit(table.X, table.y).predict(table.X_test)


# ---- peers --------------------------------------------------------------------------------------------------------


def as_peers_take_it(table: Table) -> tuple[Any, Any]:
    """Dates as days, texts as counts of their words, other texts as categories, numbers as they are."""
    both = pd.concat([table.X, table.X_test], ignore_index=True)
    made: dict[str, Any] = {}
    for name in both:
        column = both[name]
        if name in table.texts:
            counter = CountVectorizer(min_df=5, max_features=WORDS).fit(table.X[name].fillna(""))
            counts = counter.transform(column.fillna("")).toarray()
            made |= {f"{name} {w}": counts[:, i] for i, w in enumerate(counter.get_feature_names_out())}
        elif column.dtype.kind == "M":
            made[name] = (column - pd.Timestamp("1970-01-01")).dt.total_seconds() / 86_400.0
        elif column.dtype.kind in "iufb":
            made[name] = column.astype(float)
        else:
            often = table.X[name].astype(str).value_counts().index[:250]
            kept = column.astype(str).where(column.astype(str).isin(often), "other")
            made[name] = kept.where(column.notna(), "missing").astype("category")
    frame = pd.DataFrame(made)
    frame.columns = [f"c{i}" for i in range(frame.shape[1])]  # names that all of them accept
    return frame.iloc[: len(table.X)], frame.iloc[len(table.X) :]


def stopping(table: Table, X: Any) -> Any:
    """A tenth of the training rows to stop boosting by."""
    counts = np.unique(table.y, return_counts=True)[1] if table.classes else np.array([0])
    strata = table.y if table.classes and counts.min() > 1 else None
    return train_test_split(X, table.y, test_size=0.1, random_state=0, stratify=strata)


def in_order(table: Table, model: Any, X: Any) -> Any:
    """Predictions, or probabilities of all classes in their order."""
    if not table.classes:
        return model.predict(X)
    labels, P = np.unique(table.y), np.asarray(model.predict_proba(X))
    out = np.zeros((len(P), labels.size))
    out[:, np.searchsorted(labels, np.asarray(model.classes_).astype(labels.dtype))] = P
    return out


def light(table: Table) -> Any:
    """LightGBM, the better of two sizes of trees, stopped early."""
    X, X_test = as_peers_take_it(table)
    A, B, a, b = stopping(table, X)
    known = np.isin(b, np.unique(a)) if table.classes else np.ones(b.size, dtype=bool)
    make = lightgbm.LGBMClassifier if table.classes else lightgbm.LGBMRegressor
    trials = []
    for leaves in (15, 63):
        model = make(n_estimators=ROUNDS, learning_rate=0.05, num_leaves=leaves, random_state=0, n_jobs=2, verbose=-1)
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        model.fit(A, a, eval_set=[(B[known], b[known])], callbacks=[stop])
        trials.append((min(model.best_score_["valid_0"].values()), model))
    return in_order(table, min(trials, key=lambda trial: trial[0])[1], X_test)


def cat(table: Table) -> Any:
    """CatBoost as it comes, stopped early."""
    X, X_test = as_peers_take_it(table)
    kinds = [name for name in X if X[name].dtype.kind not in "iufb"]
    X, X_test = (frame.astype(dict.fromkeys(kinds, str)) for frame in (X, X_test))
    A, B, a, b = stopping(table, X)
    known = np.isin(b, np.unique(a)) if table.classes else np.ones(b.size, dtype=bool)
    make = catboost.CatBoostClassifier if table.classes else catboost.CatBoostRegressor
    model = make(random_seed=0, thread_count=2, verbose=False, cat_features=kinds, allow_writing_files=False)
    model.fit(A, a, eval_set=(B[known], b[known]), early_stopping_rounds=PATIENCE)
    return in_order(table, model, X_test)


def histograms(table: Table) -> Any:
    """scikit-learn's boosting, stopped early."""
    X, X_test = as_peers_take_it(table)
    make: Any = HistGradientBoostingClassifier if table.classes else HistGradientBoostingRegressor
    rare = table.classes and np.unique(table.y, return_counts=True)[1].min() < 10
    stop = {"max_iter": 200} if rare else {"max_iter": ROUNDS, "early_stopping": True, "n_iter_no_change": PATIENCE}
    model = make(learning_rate=0.05, categorical_features="from_dtype", random_state=0, **stop)
    return in_order(table, model.fit(X, table.y), X_test)


def support_vectors(table: Table) -> Any:
    """Gaps filled, categories one-hot, numbers standardised, C and gamma by cross-validation."""
    X, X_test = as_peers_take_it(table)
    kinds = [name for name in X if X[name].dtype.kind not in "iufb"]
    numbers = [name for name in X if name not in kinds]
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    columns = make_column_transformer(
        (scaled, numbers), (OneHotEncoder(handle_unknown="ignore", min_frequency=2), kinds)
    )
    step = SVC(probability=True, random_state=0) if table.classes else SVR()
    name, width = type(step).__name__.lower(), max(len(numbers) + len(kinds), 1)
    y, centre, scale = table.y, 0.0, 1.0
    if not table.classes:
        centre, scale = float(y.mean()), float(y.std())
        y = (y - centre) / scale
    grid = {f"{name}__C": [0.3, 3.0, 30.0], f"{name}__gamma": [g / width for g in (0.05, 0.2, 0.8)]}
    tuned, whole = slice(TUNED), slice(SVM_ROWS)
    if table.classes:
        made = make_pipeline(columns, SVC(random_state=0))
        search = GridSearchCV(made, grid, cv=3).fit(X[tuned], y[tuned])
    else:
        search = GridSearchCV(make_pipeline(columns, step), grid, cv=3).fit(X[tuned], y[tuned])
    model = make_pipeline(columns, step).set_params(**search.best_params_).fit(X[whole], y[whole])
    found = in_order(table, model, X_test)
    return found if table.classes else centre + scale * found


PEERS: dict[str, Any] = {
    OURS: ours,
    "LightGBM": light if lightgbm else None,
    "CatBoost": cat if catboost else None,
    "HistGradientBoosting": histograms,
    "support vectors": support_vectors,
}
