"""What is found on a machine, and how the engine would train there."""

from __future__ import annotations

from pathlib import Path

import jax
import pytest

from nu_ensembles.diagnostics import machine
from nu_ensembles.engine import plans
from nu_ensembles.engine.plans import Plan

SWITCH = "NU_ENSEMBLES_COMPILATION_CACHE"


@pytest.fixture
def no_setting_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {**jax.config.values, "jax_compilation_cache_dir": None}
    monkeypatch.setattr(type(jax.config), "values", property(lambda _: values))


def test_the_cache_is_described_with_its_programs_and_their_size(
    no_setting_of_jax, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "jit_many_steps-0123-cache").write_bytes(b"x" * 100)
    (tmp_path / "jit_many_steps-0123-atime").write_bytes(b"x" * 8)
    monkeypatch.setenv(SWITCH, str(tmp_path))
    found = machine.compilation_cache()
    assert (found["state"], found["folder"], found["programs"], found["bytes"]) == ("on", tmp_path, 1, 108)
    assert found["chosen_by"] == SWITCH


def test_a_cache_that_is_off_or_cannot_be_written_says_so(
    no_setting_of_jax, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SWITCH, "off")
    assert (machine.compilation_cache()["state"], machine.compilation_cache()["folder"]) == ("off", None)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv(SWITCH, str(tmp_path / "file" / "cache"))
    assert machine.compilation_cache()["state"] == "not writable"


def test_a_cache_that_the_user_gave_to_jax_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values = {**jax.config.values, "jax_compilation_cache_dir": str(tmp_path)}
    monkeypatch.setattr(type(jax.config), "values", property(lambda _: values))
    found = machine.compilation_cache()
    assert (found["state"], found["folder"], found["chosen_by"]) == ("on", tmp_path, "JAX's own setting")


def test_on_a_cpu_perceptrons_run_together_and_convolutions_one_on_each_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "n_cores", lambda: 2)
    mlp, lenet = (machine.outlook(network, 10) for network in ("mlp", "lenet"))
    assert (mlp.plan, mlp.dtype) == (Plan("vectorised", 10, on_host=False), "float32")
    assert mlp.why == "one device, and all 10 members fit into its memory"
    assert (lenet.plan, lenet.dtype) == (Plan("sequential", 2, on_host=True), "float32")
    assert lenet.why == "convolutions on a CPU are fastest member after member, one on each of 2 cores"
    assert lenet.member_bytes > mlp.member_bytes > 100_000


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan("vectorised", 4, False), "only 4 of 10 members fit into memory at once"),
        (Plan("sharded", 10, False, 4), "8 devices: members are spread over 4 of them, nothing is exchanged"),
    ],
)
def test_other_plans_have_their_reasons(plan: Plan, expected: str) -> None:
    assert machine.reason(plan, 10, 8) == expected


def test_settings_that_matter_are_listed_where_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    found = machine.variables()
    assert found["XLA_FLAGS"] == "--xla_dump_to=x"
    assert "JAX_PLATFORMS" not in found


def test_a_gpus_owner_hears_of_tf32_and_a_cpus_of_simulated_devices() -> None:
    assert any("TF32" in text for text in machine.advice("gpu"))
    assert any("CUDNN_ERRATA_JSON_FILE" in text for text in machine.advice("gpu"))
    assert any("force_host_platform_device_count" in text for text in machine.advice("cpu"))
