"""Fitted models as ONNX graphs, in double precision: made from the kernel tree, and checked before they are kept."""

from gramian.onnx.export import Exported, export

__all__ = ["Exported", "export"]
