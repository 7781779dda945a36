"""Ensembles taken elsewhere: StableHLO and ONNX files, PyTorch modules, programs that answer single rows at once."""

from nu_ensembles.export.compiled import CompiledEnsemble
from nu_ensembles.export.exporting import Exported, export_ensemble

__all__ = ["CompiledEnsemble", "Exported", "export_ensemble"]
