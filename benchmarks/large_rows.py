"""Training and prediction on more unlabelled rows than memory should hold: peak memory, time of a step, a kill.

    python benchmarks/large_rows.py --rows 50_000_000 --folder FOLDER   # 10 GB of files there, removed with --clean
    python benchmarks/large_rows.py --rows 200_000 --folder FOLDER --quick

Every part runs in a process of its own, which tells its peak memory (VmHWM) and what it had after its imports. Steps of
rows in parquet files and of rows on the device go by turns in one process, and each turn pays for what is read in it;
the rows on the device are the first `--resident` ones, because preparing all of them in memory takes some
30 GB. The prediction, by two of the members, of the first `--predicted` rows is killed (SIGKILL) when a third of its
files are there, and resumed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

N_COLUMNS, N_LABELLED, N_CLASSES, N_MEMBERS = 20, 1000, 4, 10
ROWS_A_FILE, ROUNDS, TURN, N_PREDICTING = 1_000_000, 5, 5120, 2


def features(z: np.ndarray) -> np.ndarray:
    return z * np.linspace(0.5, 3, N_COLUMNS, dtype=np.float32) + np.arange(N_COLUMNS, dtype=np.float32)


def labelled() -> tuple[Any, np.ndarray]:
    """Rows with names, and their classes: which of four sums is the largest."""
    import pyarrow as pa

    z = np.random.default_rng(1).standard_normal((N_LABELLED, N_COLUMNS), np.float32)
    x, y = features(z), z.reshape(N_LABELLED, N_CLASSES, -1).sum(axis=2).argmax(axis=1)
    return pa.table({f"c{at}": x[:, at] for at in range(N_COLUMNS)}), y


def write_files(folder: Path, n_rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, n_rows, ROWS_A_FILE)):
        path = folder / f"rows-{number:03d}.parquet"
        if not path.exists():
            shape = min(ROWS_A_FILE, n_rows - first), N_COLUMNS
            x = features(np.random.default_rng([2, number]).standard_normal(shape, np.float32))
            columns = pa.table({f"c{at}": x[:, at] for at in range(N_COLUMNS)})
            pq.write_table(columns, path.with_suffix(".partial"), row_group_size=1 << 17, compression="none")
            path.with_suffix(".partial").rename(path)


def imported() -> float:
    """What the process holds, MB, when all that it will need is imported and JAX has begun."""
    import jax.numpy as jnp
    import pyarrow.parquet  # noqa: F401

    import nu_ensembles.training  # noqa: F401

    jnp.zeros(1).block_until_ready()
    return memory_mb()[0]


def memory_mb() -> tuple[float, float]:
    """What this process holds now, and the most that it ever held."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))  # pyright: ignore


def fit(files: Path, steps: int, model: Path) -> dict[str, Any]:
    """A whole `nu.fit`, as a user calls it."""
    import nu_ensembles as nu

    x_y = labelled()
    before, begun = imported(), time.perf_counter()
    ensemble = nu.fit("mlp", *x_y, str(files), nu.methods.Nu(0.01), N_MEMBERS, steps=steps)
    seconds = time.perf_counter() - begun
    if not model.exists():
        ensemble.save(model)
    accuracy = float((ensemble.predict(x_y[0]) == x_y[1]).mean())
    return {"steps": steps, "seconds": seconds, "accuracy_labelled": accuracy, **_memory(before)}


def busy_s() -> float:
    """Seconds that all processors together were busy since this machine started."""
    counts = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(counts) - counts[3] - counts[4]) / os.sysconf("SC_CLK_TCK")


def turn(run: Any) -> None:
    """As many steps as two hauls of ten members have; what is read ahead meanwhile is waited for, so that it counts."""
    run.advance(run.step + TURN)
    if run._windows is not None:
        for _, future in run._windows._ahead.values():
            future.result()


def by_turns(files: Path, n_resident: int) -> dict[str, Any]:
    """Milliseconds a step of ten members with rows in files and with rows on the device."""
    import nu_ensembles as nu
    from nu_ensembles.engine.assembly import MemberSet, assemble
    from nu_ensembles.engine.run import Run
    from nu_ensembles.engine.settings import Settings
    from nu_ensembles.methods import TrainingRows
    from nu_ensembles.problem import lazily, prepare, random_key

    lazily.FEW_BYTES = 0
    problem = prepare(*labelled(), str(files), standardize=None)
    u = problem.x_unlabeled
    resident = np.concatenate([u[a : a + 100_000] for a in range(0, min(n_resident, len(u)), 100_000)])[:n_resident]
    network = nu.models.build("mlp", N_CLASSES)
    sets = [MemberSet(random_key(0), range(N_MEMBERS), nu.methods.Nu(0.01))]
    runs = {}
    for name, rows in (("files", u), ("device", resident)):
        of_problem = TrainingRows(problem.x, problem.y, problem.weight, rows)
        runs[name] = Run(*assemble(network, Settings(), of_problem, N_CLASSES, sets))
    del resident, of_problem
    begun = time.perf_counter()
    for run in runs.values():
        run.advance(256)
    first = time.perf_counter() - begun
    for run in runs.values():
        turn(run)  # hauls have their whole length from then on
    ms: dict[str, list[float]] = {name: [] for name in runs}
    cpu_ms: dict[str, list[float]] = {name: [] for name in runs}
    all_begun = time.perf_counter(), busy_s() - time.process_time()
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begun, used = time.perf_counter(), time.process_time()
            turn(run)
            ms[name].append((time.perf_counter() - begun) / TURN * 1000)
            cpu_ms[name].append((time.process_time() - used) / TURN * 1000)
    by_others = busy_s() - time.process_time() - all_begun[1]
    ratios = np.array(ms["files"]) / np.array(ms["device"])
    return {
        "n_resident": int(min(n_resident, len(u))),
        "files_ms": float(np.median(ms["files"])),
        "device_ms": float(np.median(ms["device"])),
        "files_cpu_ms": float(np.median(cpu_ms["files"])),
        "device_cpu_ms": float(np.median(cpu_ms["device"])),
        "ratio": float(np.median(ratios)),
        "ratios": ratios.tolist(),
        "seconds_to_first_steps": first,
        "processors_of_others": by_others / (time.perf_counter() - all_begun[0]),
    }


def predict(files: Path, model: Path, out: Path) -> dict[str, Any]:
    import jax

    import nu_ensembles as nu

    ensemble = nu.Ensemble.load(model)
    params, model_state = jax.tree.map(lambda leaf: leaf[:N_PREDICTING], (ensemble.params, ensemble.model_state))
    ensemble = dataclasses.replace(ensemble, params=params, model_state=model_state)
    before, begun = imported(), time.perf_counter()
    found = ensemble.predict_into(str(files), out, resume=out.exists())
    return {**found, "seconds": time.perf_counter() - begun, **_memory(before)}


def checked(out: Path, n_rows: int) -> dict[str, Any]:
    """Whether every row is there once, and in its place."""
    import pyarrow.parquet as pq

    expected = 0
    for path in sorted(out.glob("part-*.parquet")):
        rows = pq.read_table(path, columns=["row"])["row"].to_numpy()
        if not np.array_equal(rows, np.arange(expected, expected + len(rows))):
            return {"complete": False}
        expected += len(rows)
    return {"complete": expected == n_rows}


def _memory(before: float) -> dict[str, float]:
    return {"imported_mb": before, "peak_mb": memory_mb()[1], "own_peak_mb": memory_mb()[1] - before}


MEASURED = ("first fit", "second fit", "steps by turns", "prediction")
PARTS = {"fit": fit, "by_turns": by_turns, "predict": predict}


def in_process(part: str, *arguments: Any) -> dict[str, Any]:
    """What a part finds, in a process of its own."""
    words = [sys.executable, __file__, "--part", json.dumps([part, *map(str, arguments)])]
    answer = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(answer.splitlines()[-1])


def killed(files: Path, model: Path, out: Path, n_parts: int) -> int:
    """Kills a prediction when a third of its files are there; how many there were then."""
    words = [sys.executable, __file__, "--part", json.dumps(["predict", str(files), str(model), str(out)])]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    while len(list(out.glob("part-*.parquet"))) < max(1, n_parts // 3) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return len(list(out.glob("part-*.parquet")))


def predicted(files: Path, model: Path, folder: Path, n_rows: int) -> dict[str, Any]:
    """What a prediction comes to that was killed and goes on."""
    some, out = folder / "rows-to-predict", folder / "predicted"
    for each in (some, out):
        shutil.rmtree(each, ignore_errors=True)
    some.mkdir()
    for path in sorted(files.glob("*.parquet"))[: -(-n_rows // ROWS_A_FILE)]:
        os.link(path, some / path.name)
    n_there = killed(some, model, out, -(-n_rows // (1 << 18)))
    found = in_process("predict", some, model, out)
    return {"parts_before_the_kill": n_there, "members_predicting": N_PREDICTING} | found | checked(out, n_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--resident", type=int, default=5_000_000)
    parser.add_argument("--predicted", type=int, default=10_000_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path("large-rows"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--only", nargs="+", choices=MEASURED, default=MEASURED, metavar="PART", help=", ".join(MEASURED)
    )
    parser.add_argument("--clean", action="store_true", help="remove the folder at the end")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        name, *arguments = json.loads(options.part)
        kinds = [int if each.isdecimal() else Path for each in arguments]
        print(json.dumps(PARTS[name](*(kind(each) for kind, each in zip(kinds, arguments, strict=True)))))
        return
    from recording import Recording

    files, model = options.folder / "rows", options.folder / "model"
    os.environ["NU_ENSEMBLES_ROWS"] = str(options.folder / "store")
    begun = time.perf_counter()
    write_files(files, options.rows)
    print(f"{options.rows:,} rows in files after {time.perf_counter() - begun:.0f} s", flush=True)
    if "first fit" in options.only:
        for each in (model, options.folder / "store"):
            shutil.rmtree(each, ignore_errors=True)
    command = f"python benchmarks/large_rows.py --rows {options.rows}"
    recording = Recording("large-rows", command, ("part", "rows"), options.out, options.quick)

    def record(part: str, found: dict[str, Any]) -> None:
        recording.add({"part": part, "rows": options.rows, "members": N_MEMBERS} | found)
        print(part, json.dumps({k: v for k, v in found.items() if k != "ratios"}), flush=True)

    for part in [each for each in MEASURED if each in options.only]:
        if part.endswith("fit"):
            record(part, in_process("fit", files, options.steps, model))
        elif part == "steps by turns":
            record(part, in_process("by_turns", files, options.resident))
        else:
            record("prediction, resumed", predicted(files, model, options.folder, min(options.predicted, options.rows)))
    if options.clean:
        shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
