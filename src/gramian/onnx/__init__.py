"""Fitted models as ONNX graphs in double precision, compared with the model before they are written."""

from gramian.onnx.export import Exported, export

__all__ = ["Exported", "export"]
