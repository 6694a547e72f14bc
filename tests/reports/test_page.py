"""The report: every estimator, with and without data; nothing escapes, nothing points outside."""

import builtins
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian
from gramian.kernels import RBF, Spectrum
from gramian.reports.page import _pace
from gramian.reports.subject import Subject


class Reader(HTMLParser):
    """What a browser would see: elements, their attributes, and text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data.strip())

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture
def write(tmp_path):
    def written(model, *data, **options):
        path = gramian.report(model, *data, path=tmp_path / "report.html", **options)
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size < 3e6
        assert "http://" not in text
        assert "https://" not in text
        page = Reader(text)
        assert not page.open  # every element is closed
        ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
        assert len(ids) == len(set(ids))
        for _, attrs in page.elements:
            for name, value in attrs.items():
                if name in ("src", "href", "xlink:href"):
                    assert value.startswith(("#", "data:image/png"))
                for target in re.findall(r"url\(#([^)]+)\)", value or ""):
                    assert target in ids
        for attrs in page.all("svg"):
            assert attrs["role"] == "img"
            assert attrs["aria-label"]
        return page

    return written


def numbers(n=60, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


X = numbers()
Y = X[:, 0] + 0.1 * numbers(seed=1)[:, 0]
BINARY, THREE = X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])
WORDS = ["".join(np.random.default_rng(i).choice(list("ab" if i % 2 else "bc"), 8)) for i in range(40)]
MODELS = {
    "ridge": lambda: (gramian.KernelRidge(alpha="loo", kernel=RBF(2.0)), X, Y),
    "ridge, two targets": lambda: (gramian.KernelRidge(kernel=RBF(2.0)), X, np.column_stack([Y, -Y])),
    "ridge, one input": lambda: (gramian.KernelRidge(kernel=RBF(1.0)), X[:, :1], Y),
    "ridge, Fourier": lambda: (
        gramian.KernelRidge(kernel=RBF(2.0), approximation=gramian.FourierFeatures(random_state=0)),
        X,
        Y,
    ),
    "ridge, Nyström": lambda: (
        gramian.KernelRidge(kernel=RBF(2.0), approximation=gramian.Nystroem(n_components=25, random_state=0)),
        X,
        Y,
    ),
    "ridge, words": lambda: (gramian.KernelRidge(kernel=Spectrum(2)), WORDS, np.arange(40.0) % 2),
    "interpolator": lambda: (gramian.KernelInterpolator(kernel=RBF(1.0)), X, Y),
    "process": lambda: (gramian.GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn"), X, Y),
    "process, one input": lambda: (gramian.GaussianProcessRegressor(RBF(1.0), noise="learn"), X[:, :1], Y),
    "process, classes": lambda: (gramian.GaussianProcessClassifier(1.0 * RBF(1.0), optimizer=None), X, THREE),
    "svc": lambda: (gramian.SVC(), X, THREE),
    "svc, one input": lambda: (gramian.SVC(), X[:, :1], BINARY),
    "svc, sparse": lambda: (gramian.SVC(), sp.csr_array(X * (X > 0)), BINARY),
    "svc, Gram matrix": lambda: (gramian.SVC(kernel="precomputed"), RBF(1.0)(X), BINARY),
    "nusvc": lambda: (gramian.NuSVC(nu=0.2), X.astype(np.float32), BINARY),
    "svr": lambda: (gramian.SVR(), X, Y),
    "nusvr": lambda: (gramian.NuSVR(), X, Y),
    "novelty": lambda: (gramian.OneClassSVM(nu=0.2), X, None),
    "machine": lambda: (gramian.KernelMachineRegressor(loss="huber", lam="cv"), X, Y),
    "machine, classes": lambda: (gramian.KernelMachineClassifier(), X, THREE),
    "pegasos": lambda: (gramian.PegasosClassifier(random_state=0, n_iter=2000), X, BINARY),
    "pca": lambda: (gramian.KernelPCA(3, kernel="rbf"), X, None),
    "mixture": lambda: (gramian.GaussianMixture(2, random_state=0), X, None),
    "mixture, one input": lambda: (gramian.GaussianMixture(2, random_state=0), X[:, :1], None),
    "Nyström": lambda: (gramian.Nystroem(n_components=20, random_state=0), X, None),
    "Fourier": lambda: (gramian.FourierFeatures(random_state=0), X, None),
    "polynomial": lambda: (gramian.PolynomialMap(2), X, None),
    "pipeline": lambda: (make_pipeline(StandardScaler(), gramian.SVC()), X, THREE),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_model_has_a_page(write, name):
    model, rows, y = MODELS[name]()
    model.fit(rows) if y is None else model.fit(rows, y)
    page = write(model, rows, y)
    machine = model[-1] if name == "pipeline" else model
    assert type(machine).__name__ in page.texts
    assert len(page.all("figure")) >= 2
    assert not any("Left out" in text for text in page.texts)
    if y is not None:
        assert "Baseline" in page.texts
        assert any("cross-validation" in text for text in page.texts)


@pytest.mark.parametrize("name", ["ridge", "process", "svc", "novelty", "pca", "mixture", "Nyström", "Fourier"])
def test_every_kind_of_model_has_a_page_without_data(write, name):
    model, rows, y = MODELS[name]()
    page = write(model.fit(rows) if y is None else model.fit(rows, y))
    assert type(model).__name__ in page.texts
    assert "Use the model" in page.texts
    assert not any("Left out" in text for text in page.texts)
    assert bool(page.all("figure")) == (name != "Fourier")  # which keeps no rows


def test_the_first_screen_says_what_matters(write):
    X, y = load_iris(return_X_y=True, as_frame=True)
    page = write(gramian.SVC(C=10.0).fit(X, y), X, y, title="Irises", source="iris.csv")
    told = " ".join(page.texts)
    assert "Irises" in page.texts
    assert "Tell apart the classes of target (3 classes) from 4 inputs after learning from 150 rows." in told
    assert "Data: iris.csv." in told
    for card in ("accuracy", "Baseline", "Fit", "Predict", "Memory", "Certificate"):
        assert card in page.texts
    assert "a linear model" in page.texts
    assert "5-fold cross-validation on 150 rows" in told
    assert "does not clearly beat the baseline: accuracy" in told  # a linear model reads irises as well
    assert "petal length (cm)" in page.texts  # in the picture, as text


def test_new_rows_are_predicted_by_the_model_itself(write):
    model = gramian.KernelRidge(0.1, kernel=RBF(2.0)).fit(X[:40], Y[:40])
    page = write(model, X[40:], Y[40:])
    assert any("on 20 rows new to the model" in text for text in page.texts)
    folds = [model.score(X[40:][part], Y[40:][part]) for part in np.array_split(np.arange(20), 2)]
    assert min(folds) > 0.5
    support = gramian.SVC().fit(X[:40], BINARY[:40])
    assert any("new to the model" in text for text in write(support, X[40:], BINARY[40:]).texts)


def test_new_rows_of_a_gram_matrix(write):
    K = RBF(1.0)(X)
    model = gramian.KernelRidge(0.1, kernel="precomputed").fit(K[:40, :40], Y[:40])
    page = write(model, K[40:, :40], Y[40:])
    assert any("on 20 rows new to the model" in text for text in page.texts)
    assert any("cross-validation on 40 rows" in text for text in write(model, K[:40, :40], Y[:40]).texts)


def test_wide_sparse_rows_are_not_made_dense(write):
    wide = sp.random_array((400, 60_000), density=1e-3, random_state=0, format="csr")
    y = np.arange(400) % 2
    page = write(gramian.SVC(kernel="linear").fit(wide, y), wide, y)
    assert "Which classes are confused" in page.texts
    assert "Decision boundary" not in page.texts


def test_user_text_stays_text(write):
    bad = "<script>alert('x')</script>"
    frame = pd.DataFrame(X, columns=[bad, "a & b", '$x_1$ "q"'])
    labels = pd.Series(np.array(["<b>bold</b>", "1 < 2 && 3", "]]>"])[THREE], name="<img src=x onerror=alert(1)>")
    page = write(gramian.SVC().fit(frame, labels), frame, labels, title="<h2>t</h2>", folder='</script>"model')
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not page.all("b")
    svg_texts = [text for text in page.texts if text]
    assert any(bad in text for text in svg_texts)
    assert any("<b>bold</b>" in text for text in svg_texts)
    assert '$x_1$ "q"' in svg_texts
    assert any("<img src=x onerror=alert(1)>" in text for text in svg_texts)
    assert "<h2>t</h2>" in svg_texts


def test_pages_repeat(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    model = gramian.OneClassSVM(nu=0.2).fit(X)
    pages = []
    for name in ("a.html", "b.html"):
        text = gramian.report(model, path=tmp_path / name).read_text()
        pages.append(re.sub(r"[\d.e-]+ (s|ms|µs|ns)\b", "", text))
    assert pages[0] == pages[1]
    assert "1970-01-01" in pages[0]


def test_a_search_has_its_leaderboard(write):
    search = GridSearchCV(make_pipeline(StandardScaler(), gramian.SVC()), {"svc__C": [0.1, 1.0, 10.0]}).fit(X, THREE)
    page = write(search, X, THREE)
    assert "Leaderboard" in page.texts
    chosen = [attrs for tag, attrs in page.elements if tag == "tr" and attrs.get("class") == "chosen"]
    assert len(chosen) == 1
    assert "svc__C=0.1" in " ".join(page.texts)
    assert any("How settings were chosen" in text for text in page.texts)


def test_user_styles_are_left_alone(write):
    import matplotlib
    from matplotlib import pyplot

    before = dict(matplotlib.rcParams)
    figure = pyplot.figure()
    opened = pyplot.get_fignums()  # other tests may have left some
    write(gramian.GaussianMixture(2, random_state=0).fit(X), X)
    assert dict(matplotlib.rcParams) == before
    assert pyplot.get_fignums() == opened
    pyplot.close(figure)


def test_what_is_no_fitted_model_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        gramian.report(gramian.SVC(), path=tmp_path / "r.html")
    with pytest.raises(TypeError, match="needs a fitted estimator, got str"):
        gramian.report("model", path=tmp_path / "r.html")
    model = gramian.SVC().fit(X, BINARY)
    with pytest.raises(ValueError, match="y was passed without X"):
        gramian.report(model, None, BINARY, path=tmp_path / "r.html")
    with pytest.raises(ValueError, match="same number of rows, got 60 and 5"):
        gramian.report(model, X, BINARY[:5], path=tmp_path / "r.html")
    with pytest.raises(ValueError, match=r"y contains previously unseen labels: 7; the model predicts False, True"):
        gramian.report(model, X, np.where(BINARY, 7, 0), path=tmp_path / "r.html")
    numbers = gramian.SVR().fit(X, BINARY.astype(float))
    with pytest.raises(ValueError, match="y must hold numbers, as the model predicts them, but holds red"):
        gramian.report(numbers, X, np.full(60, "red"), path=tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_without_jinja_the_error_names_the_extra(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.split(".")[0] == "jinja2":
            raise ImportError("no module named jinja2")
        return real(name, *args, **kwargs)

    model = gramian.SVC().fit(X, BINARY)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r'pip install "\.\[report\]"'):
        gramian.report(model, path=tmp_path / "r.html")


def test_tables_of_pyarrow(write):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"age": X[:, 0], "size": X[:, 1]})
    page = write(gramian.SVC().fit(X[:, :2], BINARY), table, BINARY)
    assert "age" in page.texts


def test_the_certificate_is_computed_again_from_the_rows_of_the_fit(write):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = (X[:, 0] > 0).astype(int)
    model = gramian.SVC().fit(X, y)
    again = "Computed again from these rows, without the solver:"
    assert any(again in text for text in write(model, X, y).texts)
    assert not any("Computed again" in text for text in write(model, X[:30], y[:30]).texts)
    model.dual_coef_ = 2.0 * model.dual_coef_
    assert any("infeasible" in text for text in write(model, X, y).texts)


def test_the_pace_is_that_of_the_whole_model():
    """With its columns read and its forests asked, and not of the machine inside alone."""
    asked = []
    subject = Subject(SimpleNamespace(predict=asked.append), SimpleNamespace(), [], X)
    assert _pace(subject) >= 0.0
    np.testing.assert_array_equal(asked[0], X)
    assert _pace(Subject(SimpleNamespace(predict=asked.append), SimpleNamespace(), [])) is None
