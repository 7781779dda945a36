"""Label ablation: is it the diversity of the random labels, or would any penalty on confidence do?

The nu loss with labels drawn without replacement (the paper's), with replacement, shared by all members, or replaced by
the uniform distribution; everything else is the same. Measured on every seed: all metrics, the fit on the random
labels, and V-hat on the unlabelled rows beside (K-1)/(2cK) [Proposition 1].
"""

from __future__ import annotations

from nu_ensembles.studies.data import data_set
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import fixed_row, settings_of_protocol
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Row, Study

SCHEMES = {
    "without_replacement": "ν, labels without replacement",
    "with_replacement": "ν, labels with replacement",
    "shared": "ν, one label for all members",
    "uniform": "ν, uniform target",
}


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for dataset in options.datasets:
        for model in options.models:
            for n in options.n or (data_set(dataset).n_train,):
                (nu,) = settings_of_protocol("matched", dataset, model, "nu", n)
                where = options, dataset, n, model
                standard = Setting(nu.learning_rate, nu.epochs)
                found.append(fixed_row(*where, "standard", standard, title="standard", protocol="matched"))
                for scheme, title in SCHEMES.items():
                    setting = Setting(nu.learning_rate, nu.epochs, (*nu.options, ("labels", scheme)))
                    settings = [("labels", scheme)]
                    found.append(fixed_row(*where, "nu", setting, title=title, protocol="matched", settings=settings))
    return found


LABEL_ABLATION = Study(
    name="label-ablation",
    title="What do the random labels do?",
    question="Does the gain of ν-ensembles come from the diversity of their labels?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=("ablation", "scores", "unlabeled", "temperature"),
)
