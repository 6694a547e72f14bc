"""Pictures of kernel machines, by scikit-learn's Display convention.

``XDisplay.from_estimator(...)`` computes what is to be seen, keeps it as plain arrays and draws it;
``.plot(ax=None)`` draws it again.
matplotlib is needed to draw, and comes with ``pip install ".[report]"``.
"""

from gramian.plots.boundary import DecisionBoundaryDisplay
from gramian.plots.convergence import ConvergenceDisplay
from gramian.plots.coverage import CoverageDisplay
from gramian.plots.frontier import FrontierDisplay, Run
from gramian.plots.gaussian_process import GaussianProcessDisplay
from gramian.plots.interpolant import InterpolantDisplay
from gramian.plots.matrix import GramMatrixDisplay
from gramian.plots.metric import MetricDisplay
from gramian.plots.mixture import MixtureDisplay
from gramian.plots.sensitivity import SensitivityDisplay
from gramian.plots.spectrum import SpectrumDisplay
from gramian.plots.tuning import TuningDisplay

__all__ = [
    "ConvergenceDisplay",
    "CoverageDisplay",
    "DecisionBoundaryDisplay",
    "FrontierDisplay",
    "GaussianProcessDisplay",
    "GramMatrixDisplay",
    "InterpolantDisplay",
    "MetricDisplay",
    "MixtureDisplay",
    "Run",
    "SensitivityDisplay",
    "SpectrumDisplay",
    "TuningDisplay",
]
