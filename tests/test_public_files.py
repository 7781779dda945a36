"""What the public host and the package index read: workflows, forms, metadata, the README as a long description."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import pytest
import yaml

import nu_ensembles

ROOT = Path(__file__).parents[1]
YAML_FILES = [*sorted(ROOT.glob(".github/**/*.yml")), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
WORKFLOWS = [path for path in YAML_FILES if path.parent.name == "workflows"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOME = "https://github.com/nu-ensembles/nu-ensembles"
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read_yaml(workflow)["jobs"].values() for step in job["steps"]]


def test_every_extra_that_an_error_names_can_be_installed() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("src/**/*.py")))
    named = re.findall(r"MissingExtraError\(\s*(?:f?\"[^\"]*\"|[^()\"]*),\s*\"([\w-]+)\"\s*,?\s*\)", source)
    assert len(named) == source.count("raise MissingExtraError(")
    named += re.findall(r"nu-ensembles\[([\w-]+)\]", source)
    assert {"parquet", "equinox", "torch", "keras"} <= set(named)
    assert set(named) <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_a_yaml_file_parses(path: Path) -> None:
    assert isinstance(read_yaml(path), dict)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_make_command_of_a_workflow_is_in_the_makefile(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    used = {name for step in steps(workflow) for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    assert used
    assert used <= targets


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_uses_actions_of_one_major_version(workflow: Path) -> None:
    assert read_yaml(workflow)["permissions"] == {"contents": "read"}
    actions = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", action) for action in actions)


def test_only_the_job_that_publishes_may_do_more_and_it_runs_no_command_of_its_own() -> None:
    more = {
        (workflow.stem, name): job
        for workflow in WORKFLOWS
        for name, job in read_yaml(workflow)["jobs"].items()
        if "permissions" in job
    }
    assert list(more) == [("publish", "publish")]
    job = more["publish", "publish"]
    assert job["permissions"] == {"id-token": "write"}
    assert job["environment"]["name"] == "pypi"
    assert not any("run" in step for step in job["steps"])


def test_the_tests_run_on_every_python_of_the_classifiers_and_on_the_oldest_jax() -> None:
    matrix = read_yaml(ROOT / ".github/workflows/checks.yml")["jobs"]["tests"]["strategy"]["matrix"]
    pythons = [c.removeprefix("Programming Language :: Python :: ") for c in PROJECT["classifiers"] if ":: 3." in c]
    assert matrix["python"] == pythons
    pins = {entry["versions"]: entry["pins"] for entry in matrix["include"]}
    oldest = next(d.removeprefix("jax>=") for d in PROJECT["dependencies"] if d.startswith("jax>="))
    assert pins == {"tested": "-c constraints.txt", "oldest": f"jax=={oldest} jaxlib=={oldest}", "newest": ""}


def test_the_hooks_before_a_commit_use_the_tested_ruff() -> None:
    hooks = {
        repo["repo"].rsplit("/", 1)[1]: repo["rev"] for repo in read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    }
    tested = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert tested is not None
    assert hooks["ruff-pre-commit"] == f"v{tested[1]}"


def test_the_project_has_one_home() -> None:
    assert PROJECT["urls"]["Repository"] == read_yaml(ROOT / "CITATION.cff")["repository-code"] == HOME
    texts = [path.read_text(encoding="utf-8") for path in (*YAML_FILES, *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))]
    homes = {match for text in texts for match in re.findall(r"https://github\.com/nu-ensembles/[\w-]+", text)}
    assert homes == {HOME}


def test_the_package_says_that_it_has_types() -> None:
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert Path(nu_ensembles.__file__).with_name("py.typed").is_file()


@pytest.fixture(scope="module")
def hatch_build() -> types.ModuleType:
    """hatch_build.py, which the builder imports; the builder itself need not be installed."""
    with pytest.MonkeyPatch.context() as patch:
        interface = types.ModuleType("interface")
        interface.MetadataHookInterface = object  # pyright: ignore[reportAttributeAccessIssue]
        patch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
        spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def test_links_become_absolute_and_images_lead_to_the_files(hatch_build: types.ModuleType) -> None:
    text = "[a page](docs/a.md#part) ![a\nfigure](docs/a.svg) [outside](https://arxiv.org) [here](#part)"
    assert hatch_build.with_absolute_links(text, "https://x.org/y") == (
        "[a page](https://x.org/y/blob/main/docs/a.md#part) ![a\nfigure](https://x.org/y/raw/main/docs/a.svg) "
        "[outside](https://arxiv.org) [here](#part)"
    )


def test_the_long_description_has_no_relative_link_or_image(hatch_build: types.ModuleType) -> None:
    hook = hatch_build.ReadmeHook()
    hook.root = str(ROOT)
    metadata: dict[str, Any] = {"urls": PROJECT["urls"]}
    hook.update(metadata)
    text = metadata["readme"]["text"]
    targets = [target for _, target in LINK.findall(text)]
    assert len(targets) > 10
    assert all(target.startswith(("https://", "#")) for target in targets)
    assert not re.search(r"<(a|img)\b", text)
    assert [t for mark, t in LINK.findall(text) if mark] == [f"{HOME}/raw/main/docs/images/demo.svg"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"])
def test_a_relative_link_leads_to_a_file(page: str) -> None:
    targets = [target for _, target in LINK.findall((ROOT / page).read_text(encoding="utf-8"))]
    relative = [target for target in targets if not target.startswith(("https://", "#"))]
    assert [target for target in relative if not (ROOT / target.partition("#")[0]).exists()] == []
