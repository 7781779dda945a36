"""`nu-ensembles study`: the paper's experiments, and ours, as one command each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter, Token

from nu_ensembles.cli.options import FLAG, OUTPUT, RUN, Json, PlaceOptions, Quiet
from nu_ensembles.cli.output import show

_PLACE = PlaceOptions()
WHAT = Group("What is measured", sort_key=1)


def names(_: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
    """`standard,nu` as one word."""
    return tuple(part for token in tokens for part in token.value.split(",") if part)


def sizes(_: Any, tokens: Sequence[Token]) -> tuple[int, ...]:
    """`1000,2000` as one word."""
    try:
        return tuple(int(part) for token in tokens for part in token.value.split(","))
    except ValueError:
        raise ValueError("give whole numbers, as in 1000,2000.") from None


def _list(converter: Any, metavar: str) -> Parameter:
    return Parameter(converter=converter, n_tokens=1, metavar=metavar, negative=(), show_default=False, group=WHAT)


Names = Annotated[tuple[str, ...], _list(names, "NAME,NAME")]
Sizes = Annotated[tuple[int, ...], _list(sizes, "N,N")]


def study(
    name: str,
    *,
    datasets: Names = (),
    models: Names = (),
    methods: Names = (),
    protocols: Names = (),
    n: Sizes = (),
    seeds: Annotated[int, Parameter(group=WHAT)] = 5,
    first_seed: Annotated[int, Parameter(group=WHAT)] = 0,
    members: Annotated[int | None, Parameter(group=WHAT)] = None,
    rule: Annotated[Literal["published", "nll"] | None, Parameter(group=WHAT)] = None,
    fine_betas: Annotated[bool, FLAG, Parameter(group=WHAT)] = False,
    dtype: Annotated[Literal["auto", "float32", "bfloat16"], Parameter(group=WHAT)] = "auto",
    data_dir: Annotated[Path | None, Parameter(group=WHAT)] = None,
    quick: Annotated[bool, FLAG, Parameter(group=WHAT)] = False,
    time_limit: Annotated[float | None, Parameter(group=RUN)] = None,
    retry_failed: Annotated[bool, FLAG, Parameter(group=RUN)] = False,
    mixed: Annotated[bool, FLAG, Parameter(group=RUN)] = False,
    start_from: Annotated[Path | None, Parameter(group=RUN)] = None,
    cells_at_once: Annotated[int | None, Parameter(group=RUN)] = None,
    keep_probabilities: Annotated[bool, FLAG, Parameter(group=RUN)] = False,
    stop_on_error: Annotated[bool, FLAG, Parameter(group=RUN)] = False,
    place: PlaceOptions = _PLACE,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    export: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run one of the paper's experiments, or one of ours, with seeds and intervals: a page and a file of results.

    Every trained ensemble is on disk as soon as it is measured; a study that was stopped or killed goes on when the
    same command is given again. Lists are one word with commas.

    ```
    nu-ensembles study table1 --datasets digits --models mlp --seeds 2
    nu-ensembles study table1 --datasets cifar10 --protocols matched,selected
    nu-ensembles study training-size --n 1000,2000,4000 --out sizes
    nu-ensembles study table1 --datasets cifar10 --on ray --gpus-per-task 0.5
    ```

    Args:
      name: table1, training-size, corruptions, ensemble-size, cost, auto-safety, deployment, beta-sensitivity,
        label-ablation, unlabelled-size, when, methods or rivals.
      datasets: Data sets: digits, cifar10, cifar100; wine, breast_cancer, embeddings, mnist and fashion_mnist have no
        published settings and serve auto-safety; rivals has its own tables.
      models: Networks: mlp, lenet, wrn-22-4.
      methods: Ways to train, such as standard,nu; for rivals classifiers, such as nu,random_forest,lightgbm.
      protocols: published (the paper's hyper-parameters), matched (all as nu), selected (each tuned on validation); of
        ensembles equal-steps and equal-time.
      n: Numbers of labelled rows.
      seeds: How many seeds.
      first_seed: The first of them.
      members: Networks in an ensemble: 10 by default, 20 for ensemble-size.
      rule: What selected minimises on validation: published is (1 - accuracy)^2 + TACE^2, nll the NLL. By default the
        paper's, but nll for methods.
      fine_betas: Let selected try small values of beta, too, down to 1e-4.
      dtype: Activations of convolutional networks; auto is bfloat16 on a GPU and float32 elsewhere.
      data_dir: Folder that holds the data sets; by default they are looked for as the library does.
      quick: Few epochs, members and rows, to see that it runs; the numbers mean nothing.
      time_limit: Seconds; no group of ensembles is started that is expected to end later.
      retry_failed: Train again what failed before.
      mixed: Allow results of another version, device or code in the same folder.
      start_from: Results of an earlier run (file or folder); what they hold is not trained again.
      cells_at_once: How many ensembles train side by side at most.
      keep_probabilities: Store the members' probabilities on the test rows, too.
      stop_on_error: Stop at the first failure instead of writing it down and going on.
      out: Folder of the study; by default study-NAME.
      export: Another place for the file of results than results.json in that folder.
      json: Print one JSON object.
      quiet: Show no progress.
    """
    from nu_ensembles_studies.declare.options import StudyOptions, StudyRunOptions
    from nu_ensembles_studies.registry import find_study

    find_study(name)  # before JAX is loaded
    options = StudyOptions(
        datasets,
        models,
        methods,
        protocols,
        n,
        seeds,
        first_seed,
        members,
        rule or "",
        fine_betas,
        dtype,
        quick,
    )
    from nu_ensembles_studies.pages.study_page import headline
    from nu_ensembles_studies.run.study_run import REPORT, RESULTS, run_study

    how = StudyRunOptions(
        data_dir,
        time_limit,
        retry_failed,
        mixed,
        start_from,
        cells_at_once,
        keep_probabilities,
        stop_on_error,
        verbose=0 if quiet else 1,
        **vars(place),
    )
    folder = out or Path(f"study-{name}")
    results, progress = run_study(name, options, folder, how, export=export)
    sentences = headline(results)
    files = {"results": export or folder / RESULTS, "report": folder / REPORT}
    found = {"command": "study", "study": name, "out": folder, **files, "headline": sentences, **vars(progress)}
    where = f"The page is {files['report']}, the numbers are {files['results']}."
    text = "\n".join([*sentences, f"{progress}.", where])
    show(found, text, json)
