"""The networks of the studies: the paper's three on 32×32 images, small ones on the digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nu_ensembles.errors import unknown_name

if TYPE_CHECKING:
    from nu_ensembles.models import Model
    from nu_ensembles_studies.declare.cells import StudyCell

# Name in the studies -> the paper's name.
MODELS = {"lenet": "LeNet", "mlp": "MLP", "wrn-22-4": "ResNet22"}
CONVOLUTIONAL = ("lenet", "wrn")


def check_model(name: str) -> str:
    """Refuses what no study can build; small wide ResNets are allowed for trying things out."""
    if name not in MODELS and not name.startswith("wrn-"):
        raise unknown_name("model", name, MODELS)
    return name


def activation_dtype(model: str, wanted: str, backend: str) -> str:
    """bfloat16 for convolutions on a GPU, which halves their memory traffic; float32 for everything else."""
    if wanted != "auto":
        return wanted
    from nu_ensembles.backend import Backend

    return Backend.of(backend).convolution_dtype if model.startswith(CONVOLUTIONAL) else "float32"


def network(cell: StudyCell, n_classes: int) -> Model:
    """The network of a cell. Equal cells give the same object, so they share compiled programs."""
    from nu_ensembles import models

    if cell.model == "mlp":
        if cell.dataset == "digits":
            return models.build("mlp", n_classes, hidden=(64, 64))
        return models.build("mlp_large", n_classes)
    if cell.model == "lenet":
        return models.build("lenet", n_classes, dtype=cell.dtype)
    # One dropout mask a layer for the whole batch, as the published training had it.
    return models.build(cell.model, n_classes, dtype=cell.dtype, shared_dropout=True)
