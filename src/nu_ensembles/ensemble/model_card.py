"""The page that a model hub shows of a saved ensemble: what it is, what was said of it, how it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nu_ensembles._version import __version__

if TYPE_CHECKING:
    from nu_ensembles.ensemble.trained import Ensemble

FILE = "README.md"
MOST_NAMED = 20


def model_card(ensemble: Ensemble) -> str:
    """Markdown with the head that Hugging Face's hub reads; nothing in it is more than the manifest knows."""
    training = ensemble.training
    classes = [str(each) for each in ensemble.classes.tolist()]
    named = ", ".join(f"`{each}`" for each in classes[:MOST_NAMED]) + (" …" if len(classes) > MOST_NAMED else "")
    network = ensemble.model.spec.name if ensemble.model.spec else "a network of its author's own"
    calibration = "none"
    if ensemble.calibrator is not None:
        calibration = ensemble.calibrator.name
    elif ensemble.temperature != 1:
        calibration = f"temperature {ensemble.temperature:.3g}"
    facts = {
        "members": f"{ensemble.n_members}, {network}",
        "method": training.get("method"),
        "labelled rows": training.get("n_labelled"),
        "unlabelled rows": training.get("n_unlabelled"),
        "steps": training.get("n_steps"),
        "companion": None if ensemble.companion is None else f"a forest, weight {ensemble.companion.weight:.2f}",
        "calibration": calibration,
        "rows": "×".join(map(str, ensemble.input_shape)),
        f"{len(classes)} classes": named,
    }
    table = [f"| {name} | {value} |" for name, value in facts.items() if value is not None]
    columns = [f"| {name} | {words} |" for name, words in ensemble.describe_columns().items()]
    said = str(training.get("verdict", "")).strip()
    own = "" if ensemble.model.spec else ", model=network"
    parts = [
        "---\nlibrary_name: nu-ensembles\ntags:\n- nu-ensembles\n- calibration\n- deep-ensembles\n---",
        "# A ν-ensemble" if training.get("method") == "nu" else "# A deep ensemble",
        "Its probabilities are made from those of several networks.",
        "\n".join(["| | |", "|---|---|", *table]),
        f"## What its fit found\n\n{said}" if said else "",
        "\n".join(["## Columns\n", "| column | becomes |", "|---|---|", *columns]) if columns else "",
        "## Use\n\n```python\nimport nu_ensembles as nu\nfrom huggingface_hub import snapshot_download\n\n"
        f'ensemble = nu.Ensemble.load(snapshot_download("OWNER/NAME"){own})\nensemble.predict_proba(rows)\n```',
        "Nothing in these files is executed when they are read. They say nothing of how good the probabilities are on "
        "other rows than those of the fit: look with `nu-ensembles report`.",
        f"Made with nu-ensembles {__version__}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
