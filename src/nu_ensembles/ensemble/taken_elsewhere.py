"""How an ensemble is taken elsewhere: files, PyTorch, one compiled program; and its predictions of many rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nu_ensembles.checks import checked

if TYPE_CHECKING:
    from nu_ensembles.export import CompiledEnsemble, Exported


class TakenElsewhere:
    """The part of `nu.Ensemble` that leaves."""

    @checked
    def export(
        self,
        path: str | Path,
        format: str = "onnx",
        *,
        outputs: str | Sequence[str] = ("probabilities",),
        sample: Any = None,
    ) -> Exported:
        """Writes one file that answers as this ensemble does, in which its scaling, calibration and all members are.

        Before the file appears it is run, on rows drawn as the training rows were scaled and on `sample`, and refused
        if a probability differs by more than 1e-5. What its inputs are: docs/deploy.md.

        Args:
          path: of a new file; of StableHLO a description for readers is put beside it, `path.json`.
          format: "onnx" (extra `onnx`), or "stablehlo", which JAX alone reads on CPUs and CUDA GPUs.
          outputs: of "probabilities", "members" `[N, K, C]` and "uncertainty", the members' disagreement in nats.
          sample: rows of your own to try it on, `[N, …]` or a data frame.
        """
        from nu_ensembles.export import export_ensemble

        return export_ensemble(self, path, format, outputs, sample)

    def to_torch(self) -> Any:
        """A PyTorch module that gives these probabilities (extra `torch`): of built-in and imported networks.

        It takes rows as `predict_proba` takes them in an array; of a table, the numbers that its encoding makes.
        `module.predict_members(x)` gives each member's.
        """
        from nu_ensembles.export import torch_ensemble

        return torch_ensemble(self)

    @checked
    def compile(self, outputs: str | Sequence[str] = ("probabilities",)) -> CompiledEnsemble:
        """This ensemble made ready to answer single rows and small batches at once, from any number of threads.

        Args:
          outputs: what it gives, as in `export`.
        """
        from nu_ensembles.export import CompiledEnsemble

        ensemble: Any = self
        return CompiledEnsemble(ensemble, outputs)

    @checked
    def predict_into(
        self, x: Any, folder: str | Path, *, resume: bool = False, keep: Sequence[str] = (), verbose: int = 0
    ) -> dict[str, Any]:
        """Predicts rows that memory does not hold into a folder of parquet files, in bounded memory.

        The files hold, for each row, its number, prediction, confidence and the probability of every class.

        Args:
          x: a folder or pattern of parquet or Arrow files, a `.npy` file, a folder of images, …; see
            `nu.datasets.open_rows`.
          folder: new, or that of a killed run if `resume`.
          resume: go on with what a killed run has written: no row is predicted twice, none is missing.
          keep: columns of parquet or Arrow files to copy, as text.
          verbose: 1 shows progress on a terminal.

        Returns:
          `n_rows`, `n_parts`, and how many parts were there already, `n_earlier`.
        """
        from nu_ensembles.ensemble.into_folder import predict_into

        ensemble: Any = self
        return predict_into(ensemble, x, folder, resume=resume, keep=keep, verbose=verbose)
