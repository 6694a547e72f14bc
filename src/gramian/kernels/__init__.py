"""Kernels: similarities of two objects, as frozen values that can be combined by algebra.

``from gramian.kernels import *`` imports the kernels, but not the functions (``exp``, ``is_kernel``).
"""

from gramian.kernels.algebra import Constant, Product, Scaled, Sum, White
from gramian.kernels.base import Kernel
from gramian.kernels.base import kernel as kernel
from gramian.kernels.categorical import Categorical
from gramian.kernels.conditional import Multiquadric, ThinPlate
from gramian.kernels.deserialize import from_dict as from_dict
from gramian.kernels.dot import Dot, Linear, Polynomial, Sigmoid
from gramian.kernels.histograms import AdditiveChi2, Chi2
from gramian.kernels.linear_map import Metric
from gramian.kernels.maps import Centred, Composed, Normalized, NormalizedExp, RankOne
from gramian.kernels.maps import Columns as Columns
from gramian.kernels.mercer import MercerBasis as MercerBasis
from gramian.kernels.mercer import MercerReport as MercerReport
from gramian.kernels.mercer import is_kernel as is_kernel
from gramian.kernels.mercer import mercer as mercer
from gramian.kernels.objects import Callable, Precomputed, Spectrum, WordCount
from gramian.kernels.pointwise import Exp, PolynomialOf, Power
from gramian.kernels.pointwise import exp as exp
from gramian.kernels.pointwise import polynomial as polynomial
from gramian.kernels.power_distance import Laplace, PowerExponential
from gramian.kernels.radial import RBF, Matern, Periodic, Radial, RationalQuadratic
from gramian.kernels.resolve import resolve as resolve
from gramian.kernels.sobolev import Sobolev

__all__ = [
    "RBF",
    "AdditiveChi2",
    "Callable",
    "Categorical",
    "Centred",
    "Chi2",
    "Composed",
    "Constant",
    "Dot",
    "Exp",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern",
    "Metric",
    "Multiquadric",
    "Normalized",
    "NormalizedExp",
    "Periodic",
    "Polynomial",
    "PolynomialOf",
    "Power",
    "PowerExponential",
    "Precomputed",
    "Product",
    "Radial",
    "RankOne",
    "RationalQuadratic",
    "Scaled",
    "Sigmoid",
    "Sobolev",
    "Spectrum",
    "Sum",
    "ThinPlate",
    "White",
    "WordCount",
]
