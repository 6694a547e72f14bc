"""The display of a learned metric."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from gramian import MetricMap
from gramian.plots import MetricDisplay


def test_what_it_shows(rng):
    X = pd.DataFrame(rng.standard_normal((60, 3)) * [1.0, 100.0, 1.0], columns=["a", "b", "$c"])
    model = MetricMap("agop", rank=2).fit(X, np.sin(X["b"] / 100.0))
    display = MetricDisplay.from_estimator(model)
    free = np.diag(model.scale_) @ model.metric_ @ np.diag(model.scale_)
    np.testing.assert_allclose(
        display.directions @ np.diag(display.eigenvalues) @ display.directions.T, free, atol=1e-12
    )
    assert display.names[int(np.argmax(display.inputs))] == "b"
    assert len(display.bars_) == 3
    assert len(display.plot(kind="eigenvalues").bars_) == 2
    assert display.plot(kind="directions").bars_.get_array().shape == (3, 2)
    with pytest.raises(ValueError, match="kind must be one of"):
        display.plot(kind="all")
    with pytest.raises(NotFittedError):
        MetricDisplay.from_estimator(MetricMap())
