"""`--help` teaches, answers at once, and the documentation page names nothing that does not exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nu_ensembles import __version__
from nu_ensembles.cli.application import app

COMMANDS = tuple(name for name in app if not name.startswith("-"))
PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def options_of(command: str) -> set[str]:
    arguments = app[command].assemble_argument_collection()
    return {name for argument in arguments for name in argument.names if name.startswith("--")} | {"--help"}


def test_help_lists_every_command_with_its_purpose(desk):
    outcome = desk.run("--help")
    assert outcome.code == 0
    for command in COMMANDS:
        assert re.search(rf"^│ {command} +\w", outcome.out, re.MULTILINE)


def test_no_argument_at_all_shows_the_help(desk):
    assert desk.run().out == desk.run("--help").out


def test_version(desk):
    assert desk.run("--version").out == f"{__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_examples_and_all_its_options(desk, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    outcome = desk.run(command, "--help")
    assert outcome.code == 0
    assert f"nu-ensembles {command} " in outcome.out.split("\n", 1)[1]
    for option in options_of(command) - {"--help"}:
        assert option in outcome.out


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_fit_eighty_columns(command):
    text = app[command].default_command.__doc__ or ""
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith("nu-ensembles ")]
    assert examples
    assert max(map(len, examples)) <= 78


@pytest.mark.parametrize("command", COMMANDS)
def test_options_in_examples_exist(command):
    text = app[command].default_command.__doc__ or ""
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= options_of(command) | {"--out"}


def test_help_does_not_import_what_only_a_command_needs():
    heavy = ("jax", "flax", "optax", "sklearn", "scipy", "matplotlib", "jinja2", "numpy")
    script = (
        "import sys; from nu_ensembles.cli import main; main(['fit', '--help']); "
        f"print(set({heavy}) & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert call.stdout.splitlines()[-1] == "set()"


def test_the_module_runs_as_the_command_does():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-m", "nu_ensembles.cli", "fit", "absent.csv", "--out", "model"]
    ended = subprocess.run(call, capture_output=True, text=True, env=environment, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "nu-ensembles: error: absent.csv does not exist: check the path.\n"


def test_every_command_and_option_named_in_the_documentation_exists():
    text = PAGE.read_text()
    named = set(re.findall(r"nu-ensembles ([a-z]+)", text))
    assert {"demo", "check", "fit", "predict", "evaluate"} <= named <= set(COMMANDS)
    known = {"--version"}.union(*(options_of(command) for command in COMMANDS))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= known


def test_every_line_of_commands_in_the_documentation_uses_options_of_that_command():
    for line in PAGE.read_text().splitlines():
        if found := re.match(r"nu-ensembles ([a-z]+) ", line):
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)) <= options_of(found[1]), line


def test_a_closed_pipe_is_no_error():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    reading, writing = os.pipe()
    os.close(reading)
    script = (
        "import sys; from nu_ensembles.cli import application; application.app = lambda _: print('x' * 100_000); "
        "sys.exit(application.main([]))"
    )
    call = [sys.executable, "-c", script]
    ended = subprocess.run(call, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ctrl_c_before_any_training_ends_with_exit_code_130(desk, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("nu_ensembles.cli.data.read_training_files", interrupted)
    outcome = desk.fit()
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "nu-ensembles: stopped.\n")
    assert not desk.out.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_stars_and_no_switches_that_switch_nothing(desk, command):
    lines = desk.run(command, "--help").out.splitlines()
    assert lines[0].startswith("Usage: nu-ensembles ")
    assert not [line for line in lines if re.search(r"--empty-|--no-|no_|^│ \*", line)]
