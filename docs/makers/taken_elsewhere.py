"""The tables of docs/deploy.md from what benchmarks stored."""

from __future__ import annotations

from makers.files import Maker
from makers.performance import Found, on_devices, table


def single_rows() -> str:
    """The package, its compiled program, and onnxruntime."""

    def lines(found: Found) -> list[str]:
        header = [
            "ten members",
            "rows",
            "dispatch",
            "`predict_proba`, ms",
            "`compile()`, ms",
            "onnxruntime, ms",
            "ratio",
        ]
        rows = []
        for row in found["rows"]:
            times = [row["package_ms"], row["compiled_ms"], row["onnxruntime_ms"]]
            ratio = f"{row['compiled_ms'] / row['onnxruntime_ms']:.2f}"
            rows.append([row["network"], f"{row['rows']:,}", row["dispatch"], *(f"{ms:.3g}" for ms in times), ratio])
        return [*table(header, rows), "", "Processor time on one thread; the ratio is `compile()` to onnxruntime."]

    return on_devices("single-rows", "python benchmarks/single_rows.py", lines)


def serving() -> str:
    """Requests a second of the server."""

    def lines(found: Found) -> list[str]:
        header = [
            "clients",
            "requests",
            "a second",
            "median, ms",
            "p99, ms",
            "server's processor time a request, ms",
            "load",
        ]
        rows = [
            [
                str(row["clients"]),
                f"{row['requests']:,}",
                f"{row['rate']:,.0f}",
                f"{row['p50_ms']:.1f}",
                f"{row['p99_ms']:.1f}",
                f"{row['server_cpu_ms']:.3f}",
                f"{row['load']:.0f}",
            ]
            for row in found["rows"]
        ]
        note = "Load: processes that wanted the machine's cores, the benchmark's own two among them."
        return [*table(header, rows), "", note]

    return on_devices("serving", "python benchmarks/serving.py", lines)


def imported_networks() -> str:
    """Members of an imported PyTorch network against the same in Flax and against a PyTorch loop."""

    def lines(found: Found) -> list[str]:
        header = [
            "ten members",
            "time",
            "imported, ms a step",
            "Flax, ms",
            "ratio",
            "PyTorch loop, ms",
            "times as fast",
        ]
        rows = []
        for row in found["rows"]:
            for kind, ending in (("clock", "ms"), ("processor", "cpu_ms")):
                imported, flax, loop = (row[f"{side}_{ending}"] for side in ("imported", "flax", "torch_loop"))
                ratio, faster = f"{imported / flax:.2f}", f"{loop / imported:.2f}"
                rows.append([row["network"], kind, f"{imported:.3g}", f"{flax:.3g}", ratio, f"{loop:.3g}", faster])
        return [*table(header, rows), "", f"torch {found['torch']}, on one thread or all, whichever is faster."]

    return on_devices("imported-networks", "python benchmarks/imported_networks.py", lines)


MAKER = Maker(tables={"single-rows.md": single_rows, "serving.md": serving, "imported-networks.md": imported_networks})
