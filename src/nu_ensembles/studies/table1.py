"""Table 1: accuracy, calibration and diversity of standard and nu-ensembles with 1,000 labels, against the published.

Measured on every seed: all metrics on the test images, before and after temperature scaling fitted on the validation
images; under the published, the matched and, if asked for, the selected protocol.
"""

from __future__ import annotations

from nu_ensembles.studies.claims import table1_claims
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import protocol_rows
from nu_ensembles.studies.published import REMARKS
from nu_ensembles.studies.study import Row, Study


def rows(options: StudyOptions) -> list[Row]:
    return protocol_rows(options)


TABLE1 = Study(
    name="table1",
    title="Table 1: calibration with few labels",
    question="Are ν-ensembles better calibrated than standard ensembles at the same accuracy, with few labels?",
    rows=rows,
    defaults={
        "datasets": ("cifar10", "cifar100"),
        "models": ("lenet", "mlp", "wrn-22-4"),
        "methods": ("standard", "nu"),
        "protocols": ("published", "matched"),
    },
    claims=table1_claims,
    sections=("claims", "scores", "against_published", "temperature", "members", "unlabeled", "reliability"),
    notes=REMARKS,
)
