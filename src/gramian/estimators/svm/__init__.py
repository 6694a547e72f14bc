"""Support vector machines: scikit-learn's five estimators, and the path over C."""

from gramian.estimators.svm.single import SVR, NuSVR, OneClassSVM
from gramian.estimators.svm.svc import SVC, NuSVC, svm_path

__all__ = ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "svm_path"]
