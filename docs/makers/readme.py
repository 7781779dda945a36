"""The measured tables of the README, which stand between marks there."""

from __future__ import annotations

import numpy as np

from makers.files import RESULTS, ROOT, Maker, stored, with_numbers_to_the_right
from nu_ensembles.report.page import SortableTable
from nu_ensembles_studies.declare import published
from nu_ensembles_studies.demo.deployment import ABOUT, PICKED
from nu_ensembles_studies.demo.result import SETTING_PICKED, DemoResult
from nu_ensembles_studies.demo.terminal import markdown_table
from nu_ensembles_studies.experiments.deployment import HURTS, by_network, changes
from nu_ensembles_studies.pages.names_and_cells import row_name
from nu_ensembles_studies.pages.rivals import Splits, leaders_section, targets
from nu_ensembles_studies.run.reading import read_results

RIVAL_COLUMNS = ("Method", "Rank of ten", "NLL / ν's", "Better, worse", "Accuracy %", "ECE", "Processor s")
NETWORKS = {"mlp": "perceptrons, digits and tables", "lenet": "LeNet, images"}
MARKS = ("<!-- {} table: made by docs/make_tables.py -->", "<!-- end of {} table -->")


def demo() -> str:
    """The demo's table and verdict."""
    result = DemoResult.from_dict(stored("demo"), np.empty(0), np.empty(0))
    versions = result.environment["versions"]
    act, opening = result.deployment, ""
    if act is not None:
        opening = (
            f"**Where you deploy.** {ABOUT}, {len(act.betas)} splits. {PICKED} [What to expect of others]"
            "(docs/deployment.md).\n\n"
            f"{markdown_table(act.comparison)}\n"
            "**Where the labels come from.** "
        )
    return (
        f"{opening}Digits, {result.settings.n_labels} labels, {result.settings.n_unlabeled} unlabelled rows, "
        f"{len(result.comparison.seeds)} splits, mean ± 95 % interval, from `{result.command}` "
        f"({result.environment['system']}, jax {versions['jax']}):\n\n{markdown_table(result.comparison)}\n"
        f"{' '.join(result.verdict)}\n\n{SETTING_PICKED}\n"
    )


def headline() -> str:
    """Table 1's standard and nu rows beside the published values, and at equal epochs."""
    results, rows = read_results(RESULTS / "table1.json"), []
    for row in results.rows:
        if row.protocol != "published" or row.method not in ("standard", "nu"):
            continue
        matched = results.find(row.method, row.place._replace(protocol="matched"))
        assert matched is not None
        cells = [
            results.mean(row, "accuracy").text(1, 100),
            results.mean(row, "nll").text(2),
            results.mean(row, "ece").text(3),
            f"{published.table_value(row.dataset, row.model, row.method, 'ece'):.3f}",
            results.mean(matched, "ece").text(3),
            results.mean(matched, "ece", "scaled").text(3),
            str(sum(choice is not None for choice in results.chosen(row))),
        ]
        rows.append([row_name(row), *cells])
    head = ["1,000 labels", "Accuracy %", "NLL", "ECE", "published ECE", "ECE at equal epochs", "the same, with T"]
    device = results.about["environment"]["device"]
    note = (
        f"Mean ± 95 % interval over seeds, by `nu-ensembles study table1` on {device}. With T: after temperature "
        "scaling on the validation rows."
    )
    return "\n".join([*with_numbers_to_the_right([*head, "seeds"], rows), "", note, ""])


def rivals() -> str:
    """ν and the ten-and-one that people pick instead, on small tables: the study's leaders in fewer columns."""
    results = read_results(RESULTS / "rivals.json")
    section, aims = leaders_section(results), targets(results)
    assert section is not None
    (leaders,) = section.blocks
    assert isinstance(leaders, SortableTable)
    names = [column.title for column in leaders.columns]
    kept = [names.index(name) for name in RIVAL_COLUMNS]
    rows = [[line[at].text for at in kept] for line in leaders.rows if "calibration" not in line[0].text]
    splits = Splits.of(results)
    counted = [place for place, counts in zip(splits.places, splits.counted, strict=True) if counts]
    labels = sorted({place.n_train for place in counted})
    note = (
        f"{len(counted)} splits of {len({place.dataset for place in counted})} tables with "
        f"{', '.join(map(str, labels[:-1]))} or {labels[-1]} labels, nothing tuned by hand. Rank: the mean one by NLL "
        "among ten single methods. NLL / ν's: geometric mean with its 95 % interval over tables, below 1 is better "
        f"than ν. Processor s: the median on {results.about['environment']['device']}, programs compiled. "
        f"Of {len(aims)} aims set beforehand {sum(aim.is_met for aim in aims)} are met. By "
        "`nu-ensembles study rivals`; [table by table, and what it means](docs/rivals.md)."
    )
    return "\n".join([*with_numbers_to_the_right(RIVAL_COLUMNS, rows), "", note, ""])


def deployment() -> str:
    """What ν (auto) changes where unlabelled rows come from another place than labels, network by network."""
    results = read_results(RESULTS / "deployment.json")
    head = ["Network", "Shifts", "Runs", "NLL where it hurts", "Worst run", "ECE lower", "Accuracy there %"]
    lines = []
    for network, rows in by_network(results).items():
        runs = np.concatenate([changes(results, row, "nu_auto") for row in rows])
        hurts = runs[:, 2] == 1
        accuracies = [
            100 * float(np.concatenate([results.values(row, "accuracy", part) for row in rows])[hurts].mean())
            for part in ("standard", "nu_auto")
        ]
        log_ratios = runs[hurts, 0]
        changed, worst = (f"{100 * np.expm1(of(log_ratios)):+.0f} %".replace("-", "−") for of in (np.mean, np.max))
        lower = f"{100 * np.mean(runs[hurts, 1] < 0):.0f} %"
        accuracy = " → ".join(f"{each:.1f}" for each in accuracies)
        lines.append(
            [NETWORKS.get(network, network), str(len(rows)), str(int(hurts.sum())), changed, worst, lower, accuracy]
        )
    note = (
        f"100 labels, {results.options.seeds} seeds a shift, no label from there; against the standard ensemble that "
        f"was stopped early, where its ECE there exceeds {HURTS:g}. By `nu-ensembles study deployment`, with the rule "
        "before the present one, which takes less and harms less; [shift by shift, beside nine other ways, and "
        "where it fails](docs/deployment.md)."
    )
    return "\n".join([*with_numbers_to_the_right(head, lines), "", note, ""])


def readme() -> str:
    """The README with its measured tables between their marks."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, table in (("deployment", deployment), ("rivals", rivals), ("demo", demo), ("headline", headline)):
        start, end = (mark.format(name) for mark in MARKS)
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = f"{before}{start}\n\n{table()}\n{end}{after}"
    return text


MAKER = Maker(others={"README.md": readme})
