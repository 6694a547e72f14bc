"""``gramian serve``: right answers, and clear ones to wrong questions."""

import http.client
import json
import socket
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from gramian import SVC, AutoKernelRegressor, KernelPCA, KernelRidge, save
from gramian.cli import main

uvicorn = pytest.importorskip("uvicorn", reason="pip install '.[serve]'")
from gramian.cli.http_service import Limits, Service, application  # noqa: E402

SMALL = Limits(body=4000, rows=5, seconds=3.0)


class Running:
    """A service in a thread of its own."""

    def __init__(self, model, notes=None, limits=SMALL):
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        app = application(Service(model, notes or {}, limits))
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]}, daemon=True)

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(10)
        self.listening.close()

    def ask(self, path, question=None, body=None, headers=()):
        body = json.dumps(question) if body is None and question is not None else body
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request("GET" if body is None else "POST", path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module", name="classes")
def classifier():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    return SVC(probability="consistent", random_state=0).fit(X, np.where(X[:, 0] > 0, "yes", "no")), X


@pytest.fixture(scope="module", name="service")
def running(classes):
    notes = {"target": "answer", "types": {"a": "double", "b": "double", "answer": "string"}}
    with Running(classes[0], notes) as service:
        yield service


def test_rows_by_name_and_by_place_alone_and_together(service, classes):
    model, X = classes
    rows = [dict(zip("ab", row, strict=True)) for row in X[:3].tolist()]
    labels = model.predict(X[:3]).tolist()
    assert service.ask("/predict", rows[0]) == (200, {"prediction": labels[0]})
    assert service.ask("/predict", rows) == (200, {"predictions": [{"prediction": label} for label in labels]})
    assert service.ask("/predict", X[:3].tolist())[1] == service.ask("/predict", rows)[1]
    found = service.ask("/predict", {"rows": rows, "proba": True})[1]["predictions"]
    told = [[row["proba_no"], row["proba_yes"]] for row in found]
    np.testing.assert_array_equal(told, model.predict_proba(X[:3]))


def test_what_the_model_takes_and_how_it_is(service):
    code, schema = service.ask("/schema")
    assert code == 200
    assert schema["columns"] == [{"name": name, "type": "double", "used": True} for name in ("a", "b")]
    assert schema["classes"] == ["no", "yes"]
    assert schema["target"] == "answer"
    code, health = service.ask("/health")
    assert (code, health["status"], health["model"]) == (200, "ok", "SVC")
    assert health["certificate"].startswith("converged")


WRONG = {
    "not JSON": ("{", 400, "not JSON"),
    "nested too deeply": ("[" * 3900, 400, "not JSON"),
    "a number": ("3", 400, "send a row as a JSON object"),
    "no rows": ("[]", 400, "send a row as a JSON object"),
    "an unknown column": ('{"a": 1, "b": 2, "c": 3}', 400, "'c' that the model does not know"),
    "several values in one": ('{"a": 1, "b": [2, 3]}', 400, "row 0 holds several values in 'b'; send a number"),
    "a column that is not there": ('{"a": 1}', 400, "lacks column 'b'"),
    "too few values": ("[[1]]", 400, "row 0 has 1 values"),
    "text": ('{"a": 1, "b": "x"}', 400, "takes only numbers"),
    "kinds mixed": ('[{"a": 1, "b": 2}, {"a": "x", "b": 2}]', 400, "'a' mixes types"),
    "a row that is none": ("[1]", 400, "row 0 is int"),
    "no value": ('{"a": 1, "b": null}', 400, "b"),
    "a number too large": ('{"a": 1, "b": 1000000000000000000000}', 400, "'b' cannot hold such values"),
    "too many rows": (json.dumps([[0, 0]] * 6), 400, "at most 5 rows"),
    "an interval of a classifier": ('{"rows": [[0, 0]], "interval": 0.9}', 400, "interval"),
    "too large": ("x" * 4001, 413, "larger than 4,000 bytes"),
}


@pytest.mark.parametrize(("body", "code", "words"), WRONG.values(), ids=WRONG)
def test_wrong_questions_get_a_clear_answer(service, body, code, words):
    found, said = service.ask("/predict", body=body)
    assert found == code
    assert words in said["error"]
    assert service.ask("/health")[0] == 200


def test_a_length_that_lies_a_slow_client_and_other_paths(service):
    chunks = iter([b"x" * 3000, b"x" * 3000])
    assert service.ask("/predict", body=chunks)[0] == 413
    # The client sends all of it before it reads the answer.
    large = service.ask("/predict", body=b"x" * 30_000_000, headers={"Connection": "close"})
    assert large == (413, {"error": "the body is larger than 4,000 bytes; send the rows in parts."})
    with socket.create_connection(("127.0.0.1", service.port)) as slow:
        slow.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert b"408" in slow.recv(1000)
    for path, code in {"/nothing": 404, "/predict": 405}.items():
        found, answer = service.ask(path)
        assert found == code
        assert "POST /predict" in answer["error"]


def test_many_at_once(service, classes):
    model, X = classes
    labels, wrong = model.predict(X).tolist(), []

    def ask(i):
        if service.ask("/predict", [X[i].tolist()]) != (200, {"predictions": [{"prediction": labels[i]}]}):
            wrong.append(i)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_answer_that_takes_too_long(classes):
    class Slow(KernelRidge):
        def predict(self, X):
            time.sleep(4.0)
            return super().predict(X)

    with Running(Slow().fit(classes[1], classes[1][:, 0])) as service:
        code, said = service.ask("/predict", [[0.0, 0.0]])
    assert code == 503
    assert "within 3 s" in said["error"]


@pytest.mark.filterwarnings("default:1 row holds a level")
def test_intervals_texts_and_gaps_of_a_table():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"size": rng.random(60), "city": rng.choice(["Ulm", "Bonn"], 60), "id": np.arange(60)})
    y = table["size"] + (table["city"] == "Ulm")
    model = AutoKernelRegressor(machines=["ridge"], cv=2, random_state=0).fit(table, y)
    rows = [{"size": 0.5, "city": "Ulm"}, {"size": None, "city": None}, {"size": 1, "city": "Rome"}]
    with Running(model, limits=Limits(seconds=20.0)) as service:
        code, found = service.ask("/predict", {"rows": rows, "interval": 0.9})
    assert code == 200
    values, low, high = model.predict(pandas.DataFrame(rows), return_interval=0.9)
    for row, *numbers in zip(found["predictions"], values, low, high, strict=True):
        np.testing.assert_allclose([row["prediction"], row["lower"], row["upper"]], numbers, rtol=1e-12)


@pytest.mark.parametrize(("options", "words"), [((), "does not predict"), (("--max-body", "0"), "must be above 0")])
def test_what_cannot_be_served(tmp_path, capsys, options, words):
    save(KernelPCA(1).fit(np.eye(3)), tmp_path / "model")
    assert main(["serve", str(tmp_path / "model"), *options]) == 2
    assert words in capsys.readouterr().err


def test_a_port_in_use_is_told(tmp_path, capsys):
    save(KernelRidge(kernel="rbf").fit([[0.0], [1.0]], [0.0, 1.0]), tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(tmp_path / "model"), "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
