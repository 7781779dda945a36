"""`nu-ensembles profile`: where the time of a training step goes on this machine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from nu_ensembles.checks import check_whole
from nu_ensembles.cli.options import METHOD, NETWORK, TRAINING, ImageSize, Json
from nu_ensembles.cli.output import show, table

if TYPE_CHECKING:
    from nu_ensembles.diagnostics.profiling import StepProfile
    from nu_ensembles.engine.plans import Plan


def profile(
    *,
    model: Annotated[str, Parameter(group=NETWORK)] = "lenet",
    dtype: Annotated[Literal["auto", "bfloat16", "float32"], Parameter(group=NETWORK)] = "auto",
    image_size: Annotated[ImageSize, Parameter(group=NETWORK)] = None,
    channels: Annotated[Literal[1, 3], Parameter(group=NETWORK)] = 3,
    features: Annotated[int | None, Parameter(group=NETWORK)] = None,
    classes: Annotated[int, Parameter(group=NETWORK)] = 10,
    method: Annotated[str, Parameter(group=METHOD)] = "nu",
    members: Annotated[int, Parameter(group=METHOD)] = 10,
    batch_size: Annotated[int, Parameter(group=TRAINING)] = 32,
    steps: Annotated[int, Parameter(group=TRAINING)] = 64,
    plan: Annotated[str, Parameter(group=TRAINING)] = "auto",
    json: Json = False,
) -> None:
    """Train a few steps of a built-in network on random rows and show where a step's time goes.

    Kernels are sorted by what they do: convolutions, matrix products, elementwise work (the optimiser's included),
    reductions, copies, random numbers. On a CPU their times add up over threads. Images are flipped and cropped.

    ```
    nu-ensembles profile --model lenet --image-size 32x32
    nu-ensembles profile --model wrn-22-4 --members 10 --dtype bfloat16
    nu-ensembles profile --model mlp --features 64 --method standard
    ```

    Args:
      model: mlp, mlp_large, lenet, wide_resnet, or wrn-DEPTH-WIDTH such as wrn-22-4.
      dtype: Of a convolutional network's products; auto is bfloat16 on a GPU and float32 elsewhere.
      image_size: Height and width of the images; 32x32 unless --features is given.
      channels: Of the images.
      features: Columns of a table, instead of images.
      classes: How many classes.
      method: How members are trained, such as nu or standard.
      members: How many networks.
      batch_size: Labelled rows that a member sees in a step; as many unlabelled ones beside them.
      steps: Steps to time; up to 16 more are traced.
      plan: How members run: auto, vectorised, sequential or sharded.
      json: Print one JSON object.
    """
    from nu_ensembles.errors import InputError

    for value, name in ((members, "members"), (steps, "steps"), (features, "features")):
        if value is not None:
            check_whole(value, name)
    if features is not None and image_size is not None:
        raise InputError("Rows are images or a table: give --image-size or --features, not both.")
    row_shape = (features,) if features is not None else (*(image_size or (32, 32)), channels)
    from nu_ensembles import methods, models
    from nu_ensembles.diagnostics.profiling import profile_steps
    from nu_ensembles.diagnostics.rehearsal import Rehearsal
    from nu_ensembles.engine.augmentation import FlipAndCrop
    from nu_ensembles.engine.settings import Settings
    from nu_ensembles.training.run_folder import environment

    way = methods.build(method)
    if not way.is_one_training:
        raise InputError(f"{method!r} is a procedure of several trainings; profile a loss, such as nu or standard.")
    options = {} if model.startswith("mlp") else {"dtype": dtype}
    network = models.build(model, classes, **options)
    augment = FlipAndCrop() if len(row_shape) == 3 else None
    settings = Settings(batch_size=batch_size, augment=augment, plan=plan)
    rehearsal = Rehearsal(network, row_shape, way.base, members, settings, n_classes=classes)
    found = profile_steps(rehearsal, steps, min(steps, 16))
    what = {"model": model, "options": options, "row_shape": row_shape, "method": method, "members": members}
    what |= {"batch_size": batch_size, "steps": steps, "plan": dataclasses.asdict(rehearsal.plan)}
    measured = {"ms": found.ms, "compile_s": found.compile_s, "on_gpu": found.on_gpu, "by_kind_ms": found.by_kind()}
    measured["kernels"] = [dataclasses.asdict(kernel) for kernel in found.kernels[:40]]
    rows = "x".join(map(str, row_shape))
    text = f"{members} members of {model}, {method}, {rows} rows: {_in_words(found, rehearsal.plan)}"
    show({"command": "profile", **what, **measured, "environment": environment()}, text, json)


def _in_words(found: StepProfile, plan: Plan, n_top: int = 10) -> str:
    total = found.kernel_ms or 1.0
    kinds = [[kind, f"{ms:.3f}", f"{100 * ms / total:.0f} %"] for kind, ms in found.by_kind().items()]
    if found.on_gpu:
        kinds.append(["no kernel runs", f"{max(found.ms - found.kernel_ms, 0.0):.3f}", ""])
    kernels = [
        [f"{kernel.ms:.3f}", f"{kernel.calls:.1f}", kernel.kind, kernel.name[:80]] for kernel in found.kernels[:n_top]
    ]
    note = "" if found.on_gpu else " (added up over threads)"
    return "\n".join(
        [
            f"{found.ms:.3f} ms a step, {plan.name}; compiled in {found.compile_s:.1f} s",
            "",
            table([f"kernels{note}", "ms a step", "share"], kinds),
            "",
            table(["ms a step", "calls", "class", "kernel"], kernels),
        ]
    )
