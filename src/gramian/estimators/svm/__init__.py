"""Support vector machines: scikit-learn's five estimators, and the path over C."""

from gramian.estimators.svm.nu_svc import NuSVC
from gramian.estimators.svm.one_class import OneClassSVM
from gramian.estimators.svm.path import svm_path
from gramian.estimators.svm.svc import SVC
from gramian.estimators.svm.svr import SVR, NuSVR

__all__ = ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "svm_path"]
