"""Table 1: accuracy, calibration and diversity of standard and nu-ensembles with 1,000 labels, against the published.

Measured on every seed: all metrics on the test images, before and after temperature scaling fitted on the validation
images; under the published, the matched and, if asked for, the selected protocol.
"""

from __future__ import annotations

from nu_ensembles_studies.declare.protocols import WHOLE_TABLE, protocol_rows
from nu_ensembles_studies.declare.published import REMARKS
from nu_ensembles_studies.declare.study import Study
from nu_ensembles_studies.pages.claims import claims_section
from nu_ensembles_studies.pages.figures import against_published_section, reliability_section
from nu_ensembles_studies.pages.tables import members_section, scores_section, temperature_section, unlabeled_section
from nu_ensembles_studies.results.claims import claims_of_nu

TABLE1 = Study(
    name="table1",
    title="Table 1: calibration with few labels",
    question="Are ν-ensembles better calibrated than standard ensembles at the same accuracy, with few labels?",
    rows=protocol_rows,
    defaults=WHOLE_TABLE,
    claims=claims_of_nu,
    sections=(
        claims_section,
        scores_section,
        against_published_section,
        temperature_section,
        members_section,
        unlabeled_section,
        reliability_section,
    ),
    notes=REMARKS,
)
