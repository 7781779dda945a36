"""Label ablation: is it the diversity of the random labels, or would any penalty on confidence do?

The nu loss with labels drawn without replacement (the paper's), with replacement, shared by all members, or replaced by
the uniform distribution; everything else is the same. Measured on every seed: all metrics, the fit on the random
labels, and V-hat on the unlabelled rows beside (K-1)/(2cK) [Proposition 1].
"""

from __future__ import annotations

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import make_row, nu_setting, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Row, Study
from nu_ensembles_studies.pages.names_and_cells import difference_cell, place_name
from nu_ensembles_studies.pages.tables import scores_section, temperature_section, unlabeled_section
from nu_ensembles_studies.results.intervals import METRICS
from nu_ensembles_studies.results.results import Results

SCHEMES = {
    "without_replacement": "ν, labels without replacement",
    "with_replacement": "ν, labels with replacement",
    "shared": "ν, one label for all members",
    "uniform": "ν, uniform target",
}


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for place in places(options, "matched"):
        nu = nu_setting(place)
        found.append(make_row(options, place, "standard", [Setting(nu.learning_rate, nu.epochs)]))
        for scheme, title in SCHEMES.items():
            varied = ("labels", scheme)
            setting = Setting(nu.learning_rate, nu.epochs, (*nu.options, varied))
            found.append(make_row(options, place, "nu", [setting], title=title, varied=[varied]))
    return found


def ablation(results: Results) -> Section | None:
    """Every label scheme against the standard ensemble and against the paper's own scheme."""
    columns = [Column("Labels", text=True), *(Column(f"Δ {metric.title}") for metric in METRICS)]
    blocks: list[Paragraph | SortableTable] = []
    for place in results.places():
        standard = results.find("standard", place)
        papers = results.find("nu", place, labels="without_replacement")
        if standard is None or papers is None:
            continue
        for reference, name in ((standard, "the standard ensemble"), (papers, "labels without replacement")):
            lines = []
            for scheme, title in SCHEMES.items():
                row = results.find("nu", place, labels=scheme)
                if row is not None and row is not reference:
                    cells = [difference_cell(m, results.difference(row, reference, m.key)) for m in METRICS]
                    lines.append([Cell(title), *cells])
            blocks.append(SortableTable(f"{place_name(place)}: difference to {name}", columns, lines))
    if not blocks:
        return None
    text = (
        "If the gain came from the diversity of the labels, shared labels and a uniform target should lose it. ✓ and "
        "✗: the 95 % interval of the paired difference over seeds excludes zero."
    )
    return Section("Is it the diversity of the labels?", [Paragraph(text), *blocks])


LABEL_ABLATION = Study(
    name="label-ablation",
    title="What do the random labels do?",
    question="Does the gain of ν-ensembles come from the diversity of their labels?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=(ablation, scores_section, unlabeled_section, temperature_section),
)
