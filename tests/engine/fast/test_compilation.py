"""Where compiled programs are kept, that a machine where they cannot be kept still trains, and cuDNN's rules."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.diagnostics.rehearsal import Rehearsal
from nu_ensembles.engine import run
from nu_ensembles.engine.fast import compilation
from nu_ensembles.engine.fast.compilation import cache_folder
from nu_ensembles.engine.loop import compiled_loop
from nu_ensembles.engine.program import Program, TrainingData

SWITCH = "NU_ENSEMBLES_COMPILATION_CACHE"


@pytest.mark.parametrize("off", ["off", "OFF", "0", "no", "false"])
def test_the_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv(SWITCH, off)
    assert cache_folder() is None


def test_the_user_can_say_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "/somewhere/else")
    assert cache_folder() == Path("/somewhere/else")


def test_by_default_it_is_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/of/caches")
    assert cache_folder() == Path("/home/of/caches/nu-ensembles/compiled")


def test_a_user_without_a_home_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None


@pytest.fixture
def jax_without_cache():
    """JAX as a user finds it who has set no cache."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in names}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def switch_on() -> str | None:
    compilation.use_persistent_cache.__wrapped__()
    return jax.config.values["jax_compilation_cache_dir"]


def test_it_is_private_to_the_user(jax_without_cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(SWITCH, str(tmp_path / "cache"))
    assert switch_on() == str(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


def test_a_cache_that_the_user_has_set_is_left_alone(
    jax_without_cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SWITCH, str(tmp_path / "ours"))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    assert switch_on() == str(tmp_path / "theirs")


def test_where_no_folder_can_be_made_nothing_is_kept(
    jax_without_cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(SWITCH, str(tmp_path / "file" / "cache"))
    assert switch_on() is None


def test_the_entries_that_were_not_used_for_longest_make_room(tmp_path: Path) -> None:
    for age, name in enumerate(["newest", "older", "oldest"]):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    compilation._keep_below(tmp_path, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["newest", "older"]


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's variable as a user leaves it who does not know it, and put back afterwards."""
    monkeypatch.setenv(compilation.ENGINE_RULES, "")
    monkeypatch.delenv(compilation.ENGINE_RULES)


def test_a_gpu_leaves_slow_engines_out(rules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    compilation.leave_out_slow_engines()
    assert os.environ[compilation.ENGINE_RULES] == str(compilation.SLOW_ENGINES)


@pytest.mark.parametrize("theirs", ["", "/their/rules.json"])
def test_rules_of_the_users_own_are_left_alone(rules: None, monkeypatch: pytest.MonkeyPatch, theirs: str) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setenv(compilation.ENGINE_RULES, theirs)
    compilation.leave_out_slow_engines()
    assert os.environ[compilation.ENGINE_RULES] == theirs


def test_a_cpu_needs_no_rules(rules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    compilation.leave_out_slow_engines()
    assert compilation.ENGINE_RULES not in os.environ


def test_training_sets_the_rules_before_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(run, "leave_out_slow_engines", lambda: seen.append("rules"))
    monkeypatch.setattr(run, "side_by_side", lambda tasks: seen.append("compiled"))
    Rehearsal(nu.models.mlp(2, hidden=()), (3,), nu.methods.Standard(), 1, n_classes=2, n_rows=10)
    assert seen == ["rules", "compiled"]


def test_a_run_that_is_carried_on_sets_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsal = Rehearsal(nu.models.mlp(2, hidden=()), (3,), nu.methods.Standard(), 1, n_classes=2, n_rows=10)
    seen = []
    monkeypatch.setattr(run, "leave_out_slow_engines", lambda: seen.append("rules"))
    resumed = run.Run(rehearsal.run.program, rehearsal.run.lanes, rehearsal.run.data)
    resumed.restore(rehearsal.run.state, rehearsal.run.step)
    resumed.advance(rehearsal.run.step + 1)
    assert seen == ["rules"]


def test_the_rules_are_as_cudnn_reads_them() -> None:
    """Its frontend throws inside the compiler at a rule without an operation or with an engine that is no number."""
    stored = json.loads(compilation.SLOW_ENGINES.read_text(encoding="utf-8"))
    assert stored["version"] == 1
    for rule in stored["rules"]:
        assert rule["operation"] in ("ConvFwd", "ConvBwdData", "ConvBwdFilter")
        assert isinstance(rule["engine"], int)
        assert rule["knob"] == []
        assert rule["cudnn_version_start"] < rule["cudnn_version_end"]


def test_options_that_this_version_has_not_are_told_apart() -> None:
    assert compilation.knows_options("xla_gpu_deterministic_ops")
    assert not compilation.knows_options("xla_gpu_deterministic_ops", "xla_gpu_no_such_thing")


@pytest.mark.parametrize(
    ("network", "backend", "known", "deterministic", "chosen"),
    [
        ("wrn-10-1", "gpu", True, False, compilation.FEWER_TRIALS),
        ("wrn-10-1", "gpu", False, False, {}),
        ("wrn-10-1", "gpu", True, True, compilation.SAME_BITS),
        ("wrn-10-1", "cpu", True, False, {}),
        ("lenet", "gpu", True, False, {}),
    ],
)
def test_a_gpu_times_fewer_kernels_of_a_deep_network(
    rules: None,
    network: str,
    backend: str,
    known: bool,
    deterministic: bool,
    chosen: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(compilation, "knows_options", lambda *names: known)
    program = Program(nu.models.build(network, 2), deterministic=deterministic)
    shapes: Any = [jax.ShapeDtypeStruct(shape, np.float32) for shape in [(4, 8, 8, 3), (4,), (4,)]]
    no_lanes: Any = None
    steps, static = run.Run(program, no_lanes, TrainingData(*shapes))._loop
    assert steps is compiled_loop(tuple(chosen.items()), False)
    assert static == (program,)


def test_the_option_that_spares_trials_is_one_of_xlas() -> None:
    # Without it nothing breaks, but a deep network compiles longer.
    assert compilation.knows_options(*compilation.FEWER_TRIALS)


def test_a_fit_does_not_compile_its_small_operations_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(0)
    # A network and numbers of rows that no other test has.
    rows, unlabeled = (rng.normal(size=(n, 7)).astype(np.float32) for n in (43, 171))
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        method, model = nu.methods.Nu(0.01), nu.models.mlp(3, hidden=(13,))
        nu.fit(model, rows, rng.integers(0, 3, 43), unlabeled, method=method, n_members=5, steps=3, seed=0)
    programs = re.findall(r"Compiling jit\((\w+)\)", caplog.text)
    assert "steps_of_a_block" in programs
    assert len(programs) <= 12, programs


@pytest.mark.skipif(os.name == "nt", reason="rights are others there")
def test_a_folder_that_others_can_write_is_not_used_and_said_so(
    jax_without_cache: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SWITCH, str(tmp_path))
    tmp_path.chmod(0o777)
    compilation.use_persistent_cache.cache_clear()
    with pytest.warns(UserWarning, match="because others can write there and would have them run"):
        compilation.use_persistent_cache()
    assert jax.config.values["jax_compilation_cache_dir"] is None
    compilation.use_persistent_cache.cache_clear()
    tmp_path.chmod(0o700)
    compilation.use_persistent_cache()
    assert jax.config.values["jax_compilation_cache_dir"] == str(tmp_path)
    compilation.use_persistent_cache.cache_clear()


def test_a_process_that_needs_ever_new_programs_forgets_the_old_ones_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    monkeypatch.setattr(compilation, "_programs", set())
    monkeypatch.setattr(jax, "clear_caches", lambda: done.append("forgotten"))
    monkeypatch.setattr(compilation, "_trim", lambda: done.append("trimmed"))
    monkeypatch.setattr(gc, "collect", lambda: 0)  # of all that the tests before left, a second each time
    for number in range(compilation.MOST_PROGRAMS):
        compilation.note_program(number)
        compilation.note_program(0)  # known
    assert done == ["trimmed"] * (compilation.MOST_PROGRAMS // compilation.PROGRAMS_BETWEEN_TRIMS)
    compilation.note_program("one more")
    assert done[-2:] == ["forgotten", "trimmed"]
    assert len(compilation._programs) == 0
