"""What a fitted model depends on."""

from gramian.inspection.sensitivity import Sensitivity, sensitivity

__all__ = ["Sensitivity", "sensitivity"]
