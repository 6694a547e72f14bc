"""A model as an HTTP service: rows as JSON in, predictions out. No code is loaded from the model."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from gramian.cli.predict import check_options, predictions
from gramian.cli.shared import inputs_of
from gramian.numerals import listed

WAYS = {"rows", "proba", "interval"}
"""Keys of a request with options."""
LISTED = 20
"""Columns that an error names."""
HELP = {
    404: "there is nothing here; there are POST /predict, GET /schema and GET /health.",
    405: "this takes another method: POST /predict, GET /schema or GET /health.",
}
"""What to do instead, by status."""


@dataclass(frozen=True)
class Limits:
    """Limits on one request."""

    body: int = 16 * 2**20  # Bytes
    rows: int = 100_000
    seconds: float = 30.0  # For receiving the request, and again for answering it
    workers: int = 2  # Requests answered at the same time


@dataclass(frozen=True, eq=False)
class Service:
    """A loaded model and the names of its columns."""

    model: Any
    notes: dict[str, Any]
    limits: Limits

    @property
    def columns(self) -> list[str]:
        """The columns that the model takes, in its order."""
        names = getattr(self.model, "feature_names_in_", None)
        given = [name for name in self.notes.get("types", {}) if name != self.notes.get("target")]
        if names is None and len(given) == self.model.n_features_in_:
            names = given
        return [f"column {j}" for j in range(self.model.n_features_in_)] if names is None else [str(n) for n in names]

    @property
    def used(self) -> list[str]:
        """The columns that a row must have."""
        read = getattr(self.model, "columns_", None)  # of an automatic model, in the order of its columns
        if read is None:
            return self.columns
        return [name for name, column in zip(self.columns, read.columns, strict=True) if column.width]

    def schema(self) -> dict[str, Any]:
        """Return the columns, the target, the limits and the classes."""
        types, classes = self.notes.get("types", {}), getattr(self.model, "classes_", None)
        used, read = set(self.used), self.notes.get("columns", {})
        columns = [{"name": name, "type": types.get(name), "used": name in used} for name in self.columns]
        columns = [column | ({"read": read[column["name"]]} if column["name"] in read else {}) for column in columns]
        found: dict[str, Any] = {"columns": columns}
        found |= {"target": self.notes.get("target"), "limits": {"bytes": self.limits.body, "rows": self.limits.rows}}
        return found if classes is None else found | {"classes": _plain(classes)}

    def health(self) -> dict[str, Any]:
        """Return the status, the model's class and its certificate."""
        said = getattr(self.model, "certificate_", None)
        return {"status": "ok", "model": type(self.model).__name__, "certificate": None if said is None else str(said)}

    def answer(self, question: Any) -> dict[str, Any]:
        """Return the predictions for one row (an object), several (a list), or ``{"rows": [...], "proba": true}``."""
        ways: dict[str, Any] = {}
        if isinstance(question, dict) and isinstance(question.get("rows"), list) and set(question) <= WAYS:
            ways, question = question, question["rows"]
        single = isinstance(question, dict)
        rows = [question] if single else question
        if not isinstance(rows, list) or not rows:
            raise ValueError("send a row as a JSON object, rows as a list of them, or {'rows': [...]}.")
        if len(rows) > self.limits.rows:
            raise ValueError(f"at most {self.limits.rows:,} rows at a time, got {len(rows):,}; send them in parts.")
        proba, interval = bool(ways.get("proba")), ways.get("interval")
        if interval is not None and not isinstance(interval, float | int):
            raise ValueError(f"interval must be a probability between 0 and 1, got {interval!r}.")
        check_options(self.model, proba, interval)
        table = predictions(self.model, inputs_of(self.model, self._table(rows)), interval, proba)
        answers = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
        return answers[0] if single else {"predictions": answers}

    def _table(self, rows: list[Any]) -> Any:
        """Rows as a table of the model's columns; null stands for a missing value."""
        names = self.columns
        known = listed(names, LISTED)
        for i, row in enumerate(rows):
            if isinstance(row, list):
                if len(row) != len(names):
                    raise ValueError(f"row {i} has {len(row)} values, but the model takes {len(names)}: {known}.")
                rows[i] = row = dict(zip(names, row, strict=True))
            if not isinstance(row, dict):
                raise ValueError(f"row {i} is {type(row).__name__}; send an object with a value for each column.")
            if unknown := sorted(set(row) - set(names)):
                raise ValueError(f"row {i} has a column {unknown[0]!r} that the model does not know; it takes {known}.")
            if missing := [name for name in self.used if name not in row]:
                raise ValueError(f"row {i} lacks column {missing[0]!r}; send null where its value is not known.")
            if nested := [name for name, value in row.items() if isinstance(value, dict | list)]:
                raise ValueError(f"row {i} holds several values in {nested[0]!r}; send a number, a text or null.")
        return pyarrow.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _column(name: str, values: list[Any]) -> Any:
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError) as error:
        mixed = not isinstance(error, OverflowError)
        raise ValueError(
            f"column {name!r} {'mixes types of' if mixed else 'cannot hold such'} values: {error}."
        ) from None


def _plain(value: Any) -> Any:
    """A value for JSON, which has no nan."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def application(service: Service) -> Starlette:
    """Return the application: ``GET /health``, ``GET /schema``, ``POST /predict``."""
    limits, turns = service.limits, CapacityLimiter(service.limits.workers)

    async def told(make: Callable[[], dict[str, Any]], request: Request) -> JSONResponse:
        return JSONResponse(make())

    async def predict(request: Request) -> JSONResponse:
        try:
            body = await asyncio.wait_for(_body(request, limits.body), limits.seconds)
        except TimeoutError:
            raise HTTPException(408, f"the request did not arrive within {limits.seconds:g} s.") from None
        try:
            question = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"the body is not JSON: {error}.") from None
        answer = to_thread.run_sync(service.answer, question, limiter=turns, abandon_on_cancel=True)
        try:
            return JSONResponse(await asyncio.wait_for(answer, limits.seconds))
        except TimeoutError:
            raise HTTPException(
                503, f"no answer within {limits.seconds:g} s; send fewer rows, or try again later."
            ) from None
        except (TypeError, ValueError) as error:
            raise HTTPException(400, " ".join(str(error).split())) from None

    async def failed(request: Request, error: Exception) -> JSONResponse:
        code = getattr(error, "status_code", 500)
        message = HELP.get(code) or getattr(error, "detail", f"unexpected {type(error).__name__}")
        return JSONResponse({"error": message}, status_code=code)

    routes = [
        Route("/health", partial(told, service.health)),
        Route("/schema", partial(told, service.schema)),
        Route("/predict", predict, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: failed, Exception: failed})


async def _body(request: Request, most: int) -> bytes:
    """Read a body of bounded size; the rest of a larger one is read and forgotten, as many clients only listen then."""
    body, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= most:
            body += chunk
    if size > most:
        raise HTTPException(413, f"the body is larger than {most:,} bytes; send the rows in parts.")
    return bytes(body)
