"""What others build on: the GitHub action, the commit hook, shell completion, and the pages in docs/."""

from __future__ import annotations

import argparse
import doctest
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import reports
from assay.cli import main
from assay.commands import parser_of
from assay.completion import SHELLS
from checker.rule import FAMILIES
from checker.rules import RULES, all_facts
from checker.waivers import load_waivers
from reports.to_csv import COLUMNS
from tests.trees import GoodTree
from tools.troubleshooting_page import BEGIN
from tools.troubleshooting_page import PAGE as TROUBLES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.glob("*.md") if path.name != "rounds.md")

Grow = Callable[..., GoodTree]


# --- the command line, as the pages and files use it --------------------------------------------


def parsed(words: list[str]) -> argparse.Namespace:
    """Read a command line as ``assay`` does; an unknown option fails the test."""
    try:
        return parser_of().parse_args(words)
    except SystemExit as stop:
        # --help is the one thing that may stop the parser.
        if stop.code == 0:
            return argparse.Namespace()
        raise AssertionError(f"assay does not know: {shlex.join(words)}") from stop


def shown(text: str) -> Iterator[list[str]]:
    """The commands of a page: indented lines that begin with ``assay``, with what continues them."""
    joined = re.sub(r" *\\\n +", " ", text)
    for line in re.findall(r"^    (assay .*)$", joined, re.MULTILINE):
        yield shlex.split(line, comments=True)[1:]


def code(text: str, language: str) -> list[str]:
    """A page's fenced blocks in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_commands_on_a_page_are_commands_of_this_version(page: Path) -> None:
    for words in shown(page.read_text(encoding="utf-8")):
        parsed(words) if words != ["--version"] else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_rules_named_on_a_page_exist(page: Path) -> None:
    known = {facts.id for facts in all_facts()}
    named = re.findall(r"\b([" + "".join(FAMILIES) + r"]\d{3})\b", page.read_text("utf-8"))
    assert set(named) <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_anchors_on_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    known = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= known


# --- single pages -------------------------------------------------------------------------------


def test_examples_of_the_python_api(
    grow: Grow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = grow()
    monkeypatch.chdir(tree.root.parent)
    text = (DOCS / "python-api.md").read_text(encoding="utf-8")
    test = doctest.DocTestParser().get_doctest(text, {}, "python-api.md", "python-api.md", 0)
    assert len(test.examples) > 20
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert said == []


def test_waivers_page_shows_a_file_that_can_be_used(tmp_path: Path) -> None:
    for number, block in enumerate(code((DOCS / "waivers.md").read_text("utf-8"), "toml")):
        path = tmp_path / f"{number}.toml"
        path.write_text(block, encoding="utf-8")
        assert len(load_waivers(path)) == len(tomllib.loads(block)["waiver"]) == 3


def test_report_page_names_every_field() -> None:
    text = (DOCS / "report.md").read_text(encoding="utf-8")
    schema = json.loads((ROOT / "schemas" / "report.schema.json").read_text("utf-8"))
    fields = {field for part in schema["$defs"].values() for field in part.get("properties", {})}
    assert {field for field in fields if f"`{field}`" not in text} == set()


def test_formats_page_names_every_format() -> None:
    text = (DOCS / "formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (?:`(\.\w+)`|none) \|", text, re.MULTILINE)
    assert sorted(format for format, _ in rows) == sorted(reports.FORMATS)
    for format, suffix in rows:
        assert not suffix or reports.format_from_suffix(f"x{suffix}") == format


def test_moving_page_names_the_columns_and_real_options() -> None:
    text = (DOCS / "moving-from-the-official-checker.md").read_text(encoding="utf-8")
    assert ", ".join(COLUMNS) in " ".join(text.split())
    options = text.split("## Options")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `-[^|]*\| ([^|]*) \|", options, re.MULTILINE)
    assert len(rows) == 19
    for cell in rows:
        for words in re.findall(r"`(--[^`]*)`", cell):
            parsed(["check", "tree", *words.replace("FILE", "x").split()])


# --- troubleshooting ----------------------------------------------------------------------------


def test_troubleshooting_has_symptom_cause_and_fix_of_25_rules() -> None:
    text = TROUBLES.read_text(encoding="utf-8").split(BEGIN)[0]
    heads = re.findall(r"^### ([A-Z]\d{3}) (\S+)\n(.*?)(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert len(heads) == 25
    names = {rule.id: rule.name for rule in RULES}
    for id, name, body in heads:
        assert names[id] == name
        assert re.findall(r"^\* \*\*(\w+):\*\*", body, re.MULTILINE) == ["Symptom", "Cause", "Fix"]


# --- pre-commit ---------------------------------------------------------------------------------


def test_commit_hook_runs_a_command_of_this_version() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["id"] == "assay-check"
    assert hook["language"] == "python" and hook["pass_filenames"] is False
    words: list[str] = [*hook["entry"].split(), *hook["args"]]
    assert words[0] == "assay"
    assert parsed(words[1:]).tree == "."
    files = re.compile(hook["files"])
    assert files.search("closed/Acme/systems/box.json") and files.search("sub/open/Acme/x")
    assert not files.search("README.md")


# --- the GitHub action --------------------------------------------------------------------------


def action() -> dict[str, Any]:
    """action.yml."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return found


def _step(name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(step for step in action()["runs"]["steps"] if step["name"] == name)
    return found


def test_action_is_composite_and_uses_only_its_inputs() -> None:
    described = action()
    assert described["runs"]["using"] == "composite"
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(described["inputs"])
    for step in described["runs"]["steps"]:
        assert ("uses" in step) != ("run" in step)
        # Inputs reach the script through the environment: text in a script would be run.
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"
    outputs = {value["value"] for value in described["outputs"].values()}
    assert outputs == {f"${{{{ steps.check.outputs.{name} }}}}" for name in described["outputs"]}


def test_action_uses_options_of_this_version() -> None:
    lines = re.findall(r"^ *assay (.*)$", _step("Check")["run"], re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        line = line.split(">>")[0].replace('"${options[@]}"', "--round v6.0")
        parsed(shlex.split(line))


def _run_action(
    folder: Path, tree: str, *, round: str = "", args: str = ""
) -> tuple[int, str, dict[str, str], str]:
    """Run the action's script as GitHub would: exit status, log, outputs and job summary."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, call in {"assay": " -P -m assay", "python": ""}.items():
        (programs / name).write_text(
            f'#!/bin/sh\nexec "{sys.executable}"{call} "$@"\n', encoding="utf-8"
        )
        (programs / name).chmod(0o755)
    for name in ("output", "summary"):
        (folder / name).write_text("", encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "RUNNER_TEMP": str(folder),
        "TREE": tree,
        "ROUND": round,
        "ARGS": args,
    }
    done = subprocess.run(
        ["bash", "-e", "-c", _step("Check")["run"]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    pairs = (line.split("=", 1) for line in (folder / "output").read_text("utf-8").splitlines())
    return done.returncode, done.stdout + done.stderr, dict(pairs), (folder / "summary").read_text()


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


@needs_bash
def test_action_passes_a_good_tree(grow: Grow) -> None:
    tree = grow()
    status, log, outputs, summary = _run_action(tree.root.parent, "submission", round="v6.0")
    assert (status, outputs["status"]) == (0, "0"), log
    assert "::notice title=Assay::" in log
    assert "3 of 3 results valid" in summary
    assert json.loads(Path(outputs["report"]).read_text("utf-8"))["format"] == "assay-report"


@needs_bash
def test_action_annotates_and_fails_a_broken_tree(grow: Grow) -> None:
    tree = grow()
    next(tree.root.rglob("performance/run_1/mlperf_log_summary.txt")).unlink()
    status, log, outputs, summary = _run_action(
        tree.root.parent, "submission", args="--division closed --jobs 1"
    )
    assert (status, outputs["status"]) == (1, "1"), log
    # Files are named from the root of the repository, not from that of the tree.
    assert "::error file=submission/closed/Acme/" in log
    assert "P130" in summary
    sarif = json.loads(Path(outputs["sarif"]).read_text("utf-8"))
    places = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in sarif["runs"][0]["results"]
    ]
    assert places and all(place.startswith("submission/closed/Acme/") for place in places)


@needs_bash
def test_action_says_when_nothing_was_checked(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, log, outputs, summary = _run_action(tmp_path, "empty")
    assert (status, outputs["status"]) == (2, "2")
    assert "X003" in log and "X003" in summary
    status, log, outputs, _summary = _run_action(tmp_path, "empty", args="--no-such-option")
    assert status == 2 and "no-such-option" in log and "::error title=Assay::" in log
    assert "report" not in outputs and "sarif" not in outputs


@needs_bash
def test_action_runs_nothing_of_the_workspace(grow: Grow, tmp_path: Path) -> None:
    """B6: modules of the repository that is checked are not imported, not even by pip."""
    tree = grow()
    workspace = tree.root.parent
    marker = tmp_path / "ran"
    evil = f"open({str(marker)!r}, 'a').write(__name__)\n"
    for name in ("reports.py", "schemas.py", "json.py", "multiprocessing.py", "sitecustomize.py"):
        (workspace / name).write_text(evil, encoding="utf-8")
    (workspace / "pip").mkdir()
    (workspace / "pip/__main__.py").write_text(evil, encoding="utf-8")
    status, log, _outputs, _summary = _run_action(workspace, "submission", args="--jobs 2")
    assert status == 0 and not marker.exists(), log
    step = _step("Install Assay")
    subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=workspace,
        capture_output=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "PYTHONSAFEPATH": step["env"]["PYTHONSAFEPATH"],
            "PATH": f"{workspace / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(workspace),
            "GITHUB_ACTION_PATH": str(tmp_path / "nowhere"),
        },
    )
    assert not marker.exists()
    for step in action()["runs"]["steps"]:
        assert "<<'" not in step.get("run", "")
        for call in re.findall(r"^ *python\b.*$", step.get("run", ""), re.MULTILINE):
            assert call.split()[1] == "-P"


@needs_bash
def test_names_of_files_are_no_commands_of_the_runner(grow: Grow) -> None:
    """What a submission is called cannot give the CI system an order."""
    tree = grow()
    (tree.root / "closed/Acme/results/::add-mask::x").mkdir()
    _status, log, _outputs, _summary = _run_action(tree.root.parent, "submission")
    lines = log.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("::stop-commands::"))
    end = lines.index(f"::{lines[begin].removeprefix('::stop-commands::')}::")
    commands = [line for line in lines[:begin] + lines[end + 1 :] if line.lstrip().startswith("::")]
    assert {line.split()[0].split("::")[1] for line in commands} <= {"error", "warning", "notice"}


def test_every_action_is_pinned() -> None:
    """By a commit, since a tag can be moved."""
    for step in action()["runs"]["steps"]:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", f"x@{'0' * 40}"))


def test_constraints_fit_the_dependencies() -> None:
    """Every dependency has one tested version, within its bounds, and an upper bound."""
    from packaging.requirements import Requirement

    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for text in project["dependencies"]:
        needed = Requirement(text)
        assert needed.specifier.contains(tested[needed.name])
        assert any(one.operator == "<" for one in needed.specifier), text


def test_workflow_on_the_page_uses_the_actions_inputs_and_outputs() -> None:
    text = (DOCS / "ci.md").read_text(encoding="utf-8")
    config, workflow = (yaml.safe_load(block) for block in code(text, "yaml"))
    steps = workflow["jobs"]["assay"]["steps"]
    ours = next(step for step in steps if step.get("id") == "assay")
    assert set(ours["with"]) <= set(action()["inputs"])
    parsed(["check", "tree", *ours["with"]["args"].split()])
    used = set(re.findall(r"steps\.assay\.outputs\.(\w+)", text))
    assert used and used <= set(action()["outputs"])
    (hook,) = config["repos"][0]["hooks"]
    assert parsed(["check", *hook["args"]]).tree == "sub"
    for name in (*action()["inputs"], *action()["outputs"]):
        assert f"| `{name}` |" in text


# --- shell completion ---------------------------------------------------------------------------


def _completion(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_commands_options_and_values(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _completion(shell, capsys)
    words = ["compliance", "select-random", "v0.5", "P104", *reports.FORMATS]
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_a_script_that_its_shell_can_read(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    path = tmp_path / "script"
    path.write_text(_completion(shell, capsys), encoding="utf-8")
    done = subprocess.run(
        [program, "-n", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_ASKED = [
    ("assay ch", {"check"}),
    ("assay co", {"compliance", "completion"}),
    ("assay check --fo", {"--format"}),
    ("assay check . --format s", {"sarif"}),
    ("assay audit --division cl", {"closed"}),
    ("assay check . --round v6", {"v6.0", "v6.1"}),
    ("assay rules P104", {"P104"}),
    ("assay completion z", {"zsh"}),
    ("assay compliance ver", {"verify"}),
]


@needs_bash
@pytest.mark.parametrize(("line", "answers"), _ASKED, ids=[line for line, _ in _ASKED])
def test_completion_in_bash(
    line: str, answers: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "script"
    path.write_text(_completion("bash", capsys), encoding="utf-8")
    asked = (
        f"source {shlex.quote(str(path))}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        '_shtab_assay; printf "%s\\n" "${COMPREPLY[@]}"; complete -p assay'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", asked], capture_output=True, text=True, timeout=60, check=True
    )
    *words, registered = done.stdout.splitlines()
    assert set(words) == answers
    assert registered.endswith("-F _shtab_assay assay")


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
@pytest.mark.parametrize(("line", "answers"), _ASKED, ids=[line for line, _ in _ASKED])
def test_completion_in_fish(
    line: str, answers: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "script"
    path.write_text(_completion("fish", capsys), encoding="utf-8")
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert answers <= {found.split("\t")[0] for found in done.stdout.splitlines()}
