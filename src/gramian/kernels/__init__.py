"""Kernels, which say what "similar" means: frozen values, built by algebra."""

from gramian.kernels.algebra import Product, Sum, exp, polynomial
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.categorical import Categorical
from gramian.kernels.conditional import Multiquadric, ThinPlate
from gramian.kernels.deserialize import from_dict
from gramian.kernels.dot import Dot, Linear, Polynomial, Sigmoid
from gramian.kernels.geometry import Centred
from gramian.kernels.histograms import AdditiveChi2, Chi2
from gramian.kernels.maps import Columns, Composed, Function, Normalized, NormalizedExp
from gramian.kernels.mercer import MercerBasis, MercerReport, is_kernel, mercer
from gramian.kernels.metric import Metric
from gramian.kernels.objects import Callable, Precomputed, Spectrum, WordCount
from gramian.kernels.pointwise import Exp, PolynomialOf, Power, Scaled
from gramian.kernels.power_distance import Laplace, PowerExponential
from gramian.kernels.radial import RBF, Matern, Periodic, Radial, RationalQuadratic
from gramian.kernels.resolve import resolve
from gramian.kernels.sobolev import Sobolev
from gramian.kernels.stationary import Constant, White

__all__ = [
    "RBF",
    "AdditiveChi2",
    "Callable",
    "Categorical",
    "Centred",
    "Chi2",
    "Columns",
    "Composed",
    "Constant",
    "Dot",
    "Exp",
    "Function",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern",
    "MercerBasis",
    "MercerReport",
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
    "RationalQuadratic",
    "Scaled",
    "Sigmoid",
    "Sobolev",
    "Spectrum",
    "Sum",
    "ThinPlate",
    "White",
    "WordCount",
    "exp",
    "from_dict",
    "is_kernel",
    "kernel",
    "mercer",
    "polynomial",
    "resolve",
]
