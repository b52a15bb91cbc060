"""Family S: a good tree has no finding; one thing broken gives exactly what is listed here."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checker.rules.breaking import Break, broken, place_of
from tests.conftest import Grow
from tests.trees import GoodTree, good_tree

RGAT: dict[str, Any] = {"benchmark": "rgat", "category": "datacenter"}
EDGE: dict[str, Any] = {"benchmark": "yolo-99", "category": "edge"}
TOKENS: dict[str, Any] = {"benchmark": "llama2-70b-99", "category": "datacenter"}
OLD: dict[str, Any] = {"round": "v5.1", "benchmark": "rgat", "category": "datacenter"}
OPEN: dict[str, Any] = {**RGAT, "division": "open"}
SYSTEM = "/closed/Acme/results/box1"
DOCS = "/closed/Acme/documentation"


def _write(place: str, content: str = "text\n") -> Callable[[GoodTree], Any]:
    return lambda tree: tree.write(place, content)


def _remove(*places: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        for place in places:
            tree.remove(place)

    return change


def _move(old: str, new: str) -> Callable[[GoodTree], Any]:
    return lambda tree: tree.path_of(old).rename(tree.path_of(new))


def _doubled(place: str, name: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        shutil.copytree(tree.path_of(place), tree.path_of(place).with_name(name))

    return change


def _logs_up(tree: GoodTree) -> None:
    run = tree.path_of("closed/Acme/results/box1/rgat/Offline/performance/run_1")
    for file in run.iterdir():
        file.rename(run.parent / file.name)
    run.rmdir()


def _folder(place: str) -> Callable[[GoodTree], None]:
    return lambda tree: tree.path_of(place).mkdir(parents=True)


def _link(place: str, target: str) -> Callable[[GoodTree], None]:
    return lambda tree: tree.path_of(place).symlink_to(target)


def _orphan_system(tree: GoodTree) -> None:
    text = tree.path_of(tree.system_path).read_text()
    tree.write(f"{tree.base}/systems/box9.json", text)


def _orphan_measurements(tree: GoodTree) -> None:
    tree.write(f"{tree.base}/measurements/box9/rgat/Offline/README.md", "text\n")
    tree.write(f"{tree.base}/measurements/box1/bert-99/Offline/README.md", "text\n")
    tree.write(f"{tree.base}/compliance/box1/rgat/Server/TEST01/verify_accuracy.txt", "text\n")


def _empty_code(tree: GoodTree) -> None:
    tree.remove(f"{tree.base}/src")
    tree.write(f"{tree.base}/src/rgat/run.sh", "")


def _scenario(tree: GoodTree, name: str) -> None:
    """Another scenario beside the good ones: the Offline result under another name."""
    place = tree.path_of(tree.result("Offline").path)
    shutil.copytree(place, place.parent / name)


def _big_file(tree: GoodTree) -> None:
    path = tree.write(f"{tree.base}/documentation/weights.bin", "x")
    os.truncate(path, 60_000_000)


def _pipe(tree: GoodTree) -> None:
    os.mkfifo(tree.path_of(f"{tree.base}/documentation/pipe"))


def _second_folder(tree: GoodTree) -> None:
    place = tree.path_of(f"{tree.base}/results/box1")
    shutil.copytree(place / "llama3.1-405b", place / "llama3_1-405b")


def _mapping(text: str) -> Callable[[GoodTree], Any]:
    return lambda tree: tree.write("open/Acme/model_mapping.json", text)


def _no_benchmark(tree: GoodTree) -> None:
    for path in (
        f"{tree.base}/results/box1/rgat",
        f"{tree.base}/measurements",
        f"{tree.base}/compliance",
    ):
        tree.remove(path)
    tree.write(f"{tree.base}/results/box1/README.md", "text\n")


def _duplicate_key(tree: GoodTree) -> None:
    place = tree.measurements("Offline")
    text = place.read_text().replace("{", '{"retraining": "yes",', 1)
    tree.write(place, text)


def _other_spelling(tree: GoodTree) -> None:
    good_tree(tree.root.parent, **OPEN, submitter="ACME", into=tree)


_OFFLINE = "closed/Acme/results/box1/rgat/Offline"
_TEST01 = f"{_OFFLINE}/TEST01"
BREAKS: dict[str, list[Break]] = {
    "S101": [
        Break(
            lambda t: good_tree(t.root.parent, **RGAT, division="Closed", into=t),
            [("S101", "/Closed"), ("S129", "/closed")],
            RGAT,
        ),
        Break(_write("clsoed/notes.txt"), [("S101", "/clsoed")], RGAT),
        Break(_write("tools/notes.txt"), [("S101", "/tools")], RGAT),
    ],
    "S102": [Break(_write("stray.txt"), [("S102", "/stray.txt")], RGAT)],
    "S103": [
        Break(_write("closed/stray.txt"), [("S103", "/closed/stray.txt")], RGAT),
        Break(_write("closed/README.md"), [("S103", "/closed/README.md")], RGAT),
    ],
    "S104": [
        Break(
            _write("closed/Acme/extras/a.txt"), [("S104", "/closed/Acme")], RGAT, notes=True
        ),
        Break(_write("closed/Acme/result/a.txt"), [("S104", "/closed/Acme/result")], RGAT),
        Break(
            _write("closed/Acme/compliance/a.txt"), [("S104", "/closed/Acme/compliance")], RGAT
        ),
        Break(_move("closed/Acme/results", "closed/Acme/Results"),
              [("S104", "/closed/Acme/Results")], RGAT),
    ],
    "S105": [
        Break(
            _remove("closed/Acme/results"),
            [("S105", "/closed/Acme"), ("S106", "/closed/Acme/systems/box1.json"), ("X003", "/.")],
            RGAT,
        ),
    ],
    "S106": [Break(_orphan_system, [("S106", "/closed/Acme/systems/box9.json")], RGAT)],
    "S107": [
        Break(
            _orphan_measurements,
            [
                ("S107", "/closed/Acme/compliance/box1/rgat/Server"),
                ("S107", "/closed/Acme/measurements/box1/bert-99"),
                ("S107", "/closed/Acme/measurements/box9"),
            ],
            OLD,
        ),
    ],
    "S108": [
        Break(_remove("closed/Acme/src"), [("S108", "/closed/Acme")], RGAT),
        Break(_move("closed/Acme/src", "closed/Acme/code"), [("S108", "/closed/Acme")], RGAT),
    ],
    "S109": [Break(_empty_code, [("S109", "/closed/Acme/src")], RGAT)],
    "S110": [
        Break(_remove("closed/Acme/documentation/calibration.md"), [("S110", "/closed/Acme")], OLD),
        Break(
            _write("closed/Acme/documentation/calibration.md", ""),
            [("S110", f"{DOCS}/calibration.md")],
            OLD,
        ),
        Break(
            _remove("closed/Acme/documentation/calibration.md"),
            [("S110", "/closed/Acme")],
            RGAT,
            notes=True,
        ),
    ],
    "S111": [
        Break(
            _remove("closed/Acme/documentation/bandwidth.md"),
            [("S111", "/closed/Acme/documentation")],
            RGAT,
            notes=True,
        ),
        Break(
            _move("closed/Acme/documentation", "closed/Acme/src/calibration"),
            [("S111", "/closed/Acme")],
            RGAT,
            notes=True,
        ),
    ],
    "S112": [
        Break(_move("closed/Acme/results/box1/rgat", "closed/Acme/results/box1/rnnt"),
              [("S112", f"{SYSTEM}/rnnt/Offline")], RGAT),
        Break(_move("open/Acme/results/box1/rgat", "open/Acme/results/box1/my-graph"),
              [("S112", "/open/Acme/results/box1/my-graph/Offline")], OPEN),
    ],
    "S113": [Break(_write(f"{SYSTEM[1:]}/logs/a.txt"), [("S113", f"{SYSTEM}/logs")], RGAT)],
    "S114": [
        Break(
            lambda t: _scenario(t, "Oflin"),
            [("S114", f"{SYSTEM}/rgat/Oflin")],
            RGAT,
        ),
    ],
    "S115": [
        Break(_write(f"{SYSTEM[1:]}/rgat/logs/a.txt"), [("S115", f"{SYSTEM}/rgat/logs")], RGAT)
    ],
    "S116": [
        Break(_remove(f"{SYSTEM[1:]}/yolo-99/MultiStream"), [("S116", f"{SYSTEM}/yolo-99")], EDGE)
    ],
    "S117": [
        Break(_remove(f"{SYSTEM[1:]}/llama2-70b-99/Server"),
              [("S117", f"{SYSTEM}/llama2-70b-99")], TOKENS)
    ],
    "S118": [
        Break(
            lambda t: None,
            [("S118", f"{SYSTEM}/rgat/Server")],
            {**RGAT, "scenarios": ["Offline"]},
        ),
    ],
    "S119": [
        Break(
            lambda t: t.edit_json(t.system_path, lambda d: d.update(system_type="edge")),
            [("S119", f"{SYSTEM}/rgat/Offline")],
            RGAT,
        )
    ],
    "S120": [
        Break(
            _second_folder,
            [("S120", f"{SYSTEM}/llama3_1-405b")],
            {"benchmark": "llama3.1-405b", "category": "datacenter"},
        ),
        Break(lambda t: _scenario(t, "offline"), [
            ("S120", f"{SYSTEM}/rgat/offline"), ("S129", f"{SYSTEM}/rgat/offline"),
        ], RGAT),
    ],
    "S121": [
        Break(_write("closed/Acme/systems/.secret"), [("S121", "/closed/Acme/systems/.secret")], RGAT),
        Break(_write("closed/Acme/src/.clang"), [("S121", "/closed/Acme/src/.clang")], RGAT),
        Break(_write(".secret"), [("S121", "/.secret")], RGAT),
    ],
    "S122": [
        Break(_write("closed/Acme/documentation/a b.md"),
              [("S122", f"{DOCS}/a b.md")], RGAT),
        Break(lambda t: None, [("S122", "/closed/Acme Inc")], {**RGAT, "submitter": "Acme Inc"}),
    ],
    "S123": [
        Break(_write("closed/Acme/documentation/größe.md"),
              [("S123", f"{DOCS}/größe.md")], RGAT),
        Break(_write("closed/Acme/documentation/a:b.md"),
              [("S123", f"{DOCS}/a:b.md")], RGAT),
    ],
    "S124": [
        Break(_write("closed/Acme/documentation/__pycache__/a.pyc"),
              [("S124", f"{DOCS}/__pycache__")], RGAT),
        Break(_write("closed/Acme/src/a.pyc"), [("S124", "/closed/Acme/src/a.pyc")], RGAT),
    ],
    "S125": [
        Break(_folder(f"{SYSTEM[1:]}/rgat/Offline/performance/empty"),
              [("S125", f"{SYSTEM}/rgat/Offline/performance/empty")], RGAT),
    ],
    "S126": [Break(_big_file, [("S126", f"{DOCS}/weights.bin")], RGAT)],
    "S127": [
        Break(_link("closed/Acme/documentation/a.md", "nowhere.md"),
              [("S127", f"{DOCS}/a.md")], RGAT),
        Break(_link("closed/Acme/documentation/a.md", "/etc/hostname"),
              [("S127", f"{DOCS}/a.md")], RGAT),
        Break(_link("closed/Acme/documentation/up", ".."),
              [("S127", f"{DOCS}/up")], RGAT),
    ],
    "S128": [
        Break(_pipe, [("S128", f"{DOCS}/pipe")], RGAT),
        Break(
            _write("closed/Acme/results/box1/rgat/Offline/accuracy/extra.json/a.md"),
            [("S128", f"{SYSTEM}/rgat/Offline/accuracy/extra.json")],
            RGAT,
        ),
    ],
    "S129": [
        Break(_write("closed/Acme/documentation/Calibration.md"),
              [("S129", f"{DOCS}/calibration.md")], RGAT),
    ],
    "S130": [
        Break(_write(f"closed/Acme/documentation/{'a' * 120}/{'b' * 140}.md"),
              [("S130", f"{DOCS}/{'a' * 120}/{'b' * 140}.md")], RGAT, notes=True),
    ],
    "S131": [Break(_other_spelling, [("S131", "/open/ACME")], RGAT)],
    "S132": [
        Break(_write(f"{SYSTEM[1:]}/rgat/Offline/accuracy/notes.txt"),
              [("S132", f"{SYSTEM}/rgat/Offline/accuracy/notes.txt")], RGAT, notes=True),
        Break(_write(f"{SYSTEM[1:]}/rgat/Offline/performance/run_1/old/notes.txt"),
              [("S132", f"{SYSTEM}/rgat/Offline/performance/run_1/old")], RGAT, notes=True),
        Break(_write(f"{SYSTEM[1:]}/rgat/SingleStream"), [("S132", f"{SYSTEM}/rgat/SingleStream")], RGAT),
        Break(_write(f"{SYSTEM[1:]}/rgat/Offline/TEST05"), [("S132", f"{SYSTEM}/rgat/Offline/TEST05")], RGAT),
        Break(_write(f"{SYSTEM[1:]}/rgat/Offline/TEST05/accuracy"),
              [("S132", f"{SYSTEM}/rgat/Offline/TEST05/accuracy")], RGAT),
        Break(_write(f"{SYSTEM[1:]}/rgat/Offline/TEST05/performance/run_1"),
              [("S132", f"{SYSTEM}/rgat/Offline/TEST05/performance/run_1")], RGAT),
    ],
    "S133": [Break(_no_benchmark, [("S133", SYSTEM), ("X003", "/.")], OLD)],
    "S134": [
        Break(_mapping('["rgat"]'), [("S134", "/open/Acme/model_mapping.json")], OPEN),
        Break(_mapping('{"mine": "rgatt"}'), [("S134", "/open/Acme/model_mapping.json")], OPEN),
        Break(_mapping('{"rgat": "resnet"}'), [("S134", "/open/Acme/model_mapping.json")], OPEN),
        Break(
            _mapping('{"mine": "rgat"}'),
            [("S134", "/open/Acme/model_mapping.json")],
            OPEN,
            notes=True,
        ),
    ],
    "S135": [Break(_duplicate_key, [("S135", "Offline/measurements.json")], RGAT)],
    "S136": [
        Break(_write("closed/Acme/systems/notes.md"), [("S136", "/closed/Acme/systems")], RGAT,
              notes=True),
    ],
    "S137": [
        Break(_move("closed/Acme/results/box1/rgat/Offline/performance/run_1",
                    "closed/Acme/results/box1/rgat/Offline/performance/run1"),
              [("S137", "Offline/performance/run1")], RGAT),
        Break(_move("closed/Acme/results/box1/rgat/Offline/accuracy",
                    "closed/Acme/results/box1/rgat/Offline/Accuracy"),
              [("S137", "Offline/Accuracy")], RGAT),
        Break(_logs_up, [("S137", "Offline/performance")], RGAT),
        Break(_move(f"{_TEST01}/performance/run_1", f"{_TEST01}/performance/Run_1"),
              [("S137", "Offline/TEST01/performance/Run_1")], RGAT),
    ],
    "S138": [
        Break(_doubled(f"{_OFFLINE}/performance/run_1", "run_1_of_may"),
              [("S138", "Offline/performance/run_1_of_may")], RGAT),
        Break(_doubled(f"{_OFFLINE}/performance", "performance_old"),
              [("S138", "Offline/performance_old")], RGAT),
        Break(_doubled(f"{_OFFLINE}/TEST01", "TEST01_old"), [("S138", "Offline/TEST01_old")], RGAT),
        Break(_doubled("closed/Acme/compliance/box1/rgat/Offline/TEST01", "TEST01_old"),
              [("S138", "/closed/Acme/compliance/box1/rgat/Offline/TEST01_old")], OLD, notes=True),
    ],
}  # fmt: skip


def run(rule: str, case: Break, grow: Grow) -> None:
    """The tree is good, then broken; the findings are exactly the expected ones."""
    tree = grow(**case.tree)
    if rule == "S118":
        _scenario(tree, "Server")
    case.change(tree)
    report = tree.check()
    found = sorted(
        (f.rule, f.path or "") for f in report.findings if case.notes or f.severity != "note"
    )
    told = "\n".join(f"{f.rule} {f.severity} {f.path} {f.message}" for f in report.findings)
    if rule == "S118":
        # The copied logs are Offline's: that is said by other rules.
        found = [f for f in found if f[0][0] == "S"]
    assert found == sorted((r, place_of(tree, p)) for r, p in case.expected), told
    for finding in report.findings:
        if finding.rule == rule:
            assert finding.message and finding.fix


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_break(rule: str, case: Break, grow: Grow) -> None:
    run(rule, case, grow)


@pytest.mark.parametrize("options", [RGAT, EDGE, TOKENS, OLD, OPEN])
def test_good(options: dict[str, Any], grow: Grow) -> None:
    assert grow(**options).findings(notes=True, select=("S",)) == []


def _messages(tree: GoodTree, rule: str) -> list[tuple[str, str]]:
    return [(f.severity, f.message) for f in tree.check().findings if f.rule == rule]


def _severity(tree: GoodTree, rule: str) -> list[str]:
    return [severity for severity, _ in _messages(tree, rule)]


@pytest.mark.parametrize(
    "scope",
    [
        "closed",
        "closed/Acme",
        "closed/Acme/results/box1",
        "closed/Acme/results/box1/yolo-99",
        "closed/Acme/results/box1/yolo-99/Offline",
        "closed/Acme/results/box1/yolo-99/Offline/performance/run_1",
    ],
)
@pytest.mark.parametrize("layout", ["v6.0", "v5.1"])
def test_part_of_a_tree(scope: str, layout: str, grow: Grow) -> None:
    benchmark = "yolo-99" if layout == "v6.0" else "resnet"
    tree = grow(round=layout, benchmark=benchmark, category="edge")
    tree.root = tree.root / scope.replace("yolo-99", benchmark)
    assert tree.findings(select=("S", "D", "M", "N"), round=layout) == []


def test_case_004_interactive_in_place_of_server(grow: Grow) -> None:
    tree = grow(**TOKENS, scenarios=["Offline", "Interactive"])
    assert tree.findings(select=("S",)) == []
    alone = grow(**TOKENS, division="open", scenarios=["Offline"])
    assert alone.findings(select=("S",)) == []


def test_case_005_lower_case_scenario(grow: Grow) -> None:
    tree = grow(**TOKENS, scenarios=["Offline", "Interactive"])
    base = "closed/Acme/results/box1/llama2-70b-99"
    _move(f"{base}/Interactive", f"{base}/interactive")(tree)
    assert tree.findings(select=("S",)) == []


def test_case_015_open_models_have_names_of_their_own(grow: Grow) -> None:
    tree = grow(benchmark="resnet", category="edge", division="open", directory="mobilenet-v3")
    assert tree.findings(select=("S",)) == []


def test_case_016_mapping_instead_of_code(grow: Grow) -> None:
    tree = grow(**OPEN, directory="my-graph")
    assert tree.findings(select=("S",)) == [("S112", "open/Acme/results/box1/my-graph/Offline")]
    _mapping('{"my-graph": "rgat"}')(tree)
    assert tree.findings(select=("S",)) == []
    assert tree.check().results[0].benchmark == "rgat"


def test_case_024_open_needs_no_compliance(grow: Grow) -> None:
    assert grow(**OPEN).findings(select=("S",)) == []


def test_case_029_only_the_extra_files_are_listed(grow: Grow) -> None:
    tree = grow(**RGAT)
    for name in (".gitkeep", "results.json", "mlperf_log_trace.json", "images/1.png"):
        tree.write(f"{SYSTEM[1:]}/rgat/Offline/accuracy/{name}", "x")
    assert tree.findings(select=("S132",)) == []
    tree.write(f"{SYSTEM[1:]}/rgat/Offline/accuracy/notes.txt", "x")
    ((severity, message),) = _messages(tree, "S132")
    assert severity == "note"
    assert message.startswith("found notes.txt in the folders of 1 result;")


def test_case_033_leftovers(grow: Grow) -> None:
    tree = grow(**RGAT)
    _orphan_system(tree)
    assert [f[0] for f in tree.findings()] == ["S106"]
    assert tree.check().summary.valid == 1


def test_case_034_calibration(grow: Grow) -> None:
    tree = grow(**OLD)
    tree.remove("closed/Acme/documentation/calibration.md")
    assert _severity(tree, "S110") == ["error"]
    tree.write("closed/Acme/calibration.md", "text\n")
    assert tree.findings() == []
    assert grow(**{**OLD, "division": "open"}).findings(notes=True, select=("S110",)) == []


def test_case_035_links(grow: Grow) -> None:
    tree = grow(**RGAT)
    _link("closed/Acme/documentation/good.md", "../documentation/calibration.md")(tree)
    assert tree.findings() == []
    _link("closed/Acme/src/bad.md", "nowhere.md")(tree)
    assert _severity(tree, "S127") == ["warning"]


def test_case_036_untidy_tree(grow: Grow) -> None:
    tree = grow(**RGAT)
    _big_file(tree)
    for name in ("a b.txt", ".secret", "__pycache__/a.pyc"):
        tree.write(f"closed/Acme/documentation/{name}", "x")
    _folder("closed/Acme/documentation/empty")(tree)
    assert sorted(f[0] for f in tree.findings()) == ["S121", "S122", "S124", "S125", "S126"]
    assert tree.check().summary.valid == 1


def test_case_037_scenario_that_the_benchmark_does_not_have(grow: Grow) -> None:
    tree = grow(**RGAT)
    _scenario(tree, "Server")
    (message,) = [m for _, m in _messages(tree, "S118")]
    assert "found Server; expected Offline, the scenarios of rgat in category datacenter" in message


def test_case_043_extra_folders(grow: Grow) -> None:
    tree = grow(**RGAT)
    tree.write("closed/Acme/results/.ipynb_checkpoints/a.txt", "x")
    tree.write(f"{SYSTEM[1:]}/logs/a.txt", "x")
    tree.remove(tree.system_path)
    found = [rule for rule, _ in tree.findings(select=("S113", "S121", "D101", "X"))]
    assert sorted(found) == ["D101", "D101", "S113", "S121"]


def test_case_044_results_missing(grow: Grow) -> None:
    tree = grow(**RGAT)
    tree.remove("closed/Acme/results")
    assert _severity(tree, "S105") == ["error"]


def test_case_045_benchmark_of_another_category_or_round(grow: Grow) -> None:
    tree = grow(**RGAT)
    tree.edit_json(tree.system_path, lambda d: d.update(system_type="edge"))
    ((severity, message),) = _messages(tree, "S119")
    assert severity == "error"
    assert "found rgat; expected a benchmark of the edge suite of v6.0: " in message
    assert "resnet" in message
    other = grow(**RGAT)
    _move(f"{SYSTEM[1:]}/rgat", f"{SYSTEM[1:]}/rgatt")(other)
    ((severity, message),) = _messages(other, "S112")
    assert severity == "error"
    assert "did you mean rgat?" in message
    assert other.check().results[0].status == "invalid"


def test_case_048_scenario_in_capitals(grow: Grow) -> None:
    tree = grow(**EDGE)
    base = f"{SYSTEM[1:]}/yolo-99"
    _move(f"{base}/MultiStream", f"{base}/MULTISTREAM")(tree)
    assert tree.findings() == []


def test_case_060_misspelt_division_is_not_silent(grow: Grow) -> None:
    tree = grow(**RGAT)
    _move("closed", "Closed")(tree)
    rules = [f[0] for f in tree.findings()]
    assert "S101" in rules
    assert "X003" in rules


def test_case_068_rules_can_be_left_out(grow: Grow) -> None:
    tree = grow(**RGAT)
    tree.write("stray.txt", "x")
    assert tree.findings(ignore=("S102",)) == []
    assert tree.findings(ignore=("root-files",)) == []


def test_case_070_one_gap_does_not_hide_the_others(grow: Grow) -> None:
    tree = grow(**EDGE)
    tree.remove(f"{SYSTEM[1:]}/yolo-99/Offline")
    report = tree.check()
    assert [(f.rule, f.severity) for f in report.findings] == [("S116", "error")]
    assert "would be valid in the open division" in report.findings[0].message
    assert [row.status for row in report.results] == ["invalid", "invalid"]


def test_case_091_two_folders_for_one_benchmark(grow: Grow) -> None:
    tree = grow(benchmark="llama3.1-405b", category="datacenter")
    _second_folder(tree)
    ((severity, message),) = _messages(tree, "S120")
    assert severity == "error"
    assert "results/box1/llama3.1-405b" in message
    assert "results/box1/llama3_1-405b" in message


def test_open_may_have_two_folders_for_one_benchmark(grow: Grow) -> None:
    tree = grow(**OPEN)
    good_tree(tree.root.parent, **OPEN, directory="rgat-pruned", into=tree)
    _mapping(json.dumps({"rgat-pruned": "rgat"}))(tree)
    assert tree.findings(select=("S",)) == []


def test_result_checked_alone_tells_nothing_of_its_neighbours(grow: Grow, tmp_path: Path) -> None:
    tree = grow(**EDGE)
    run_1 = tree.result("Offline").performance
    alone = tmp_path / "run"
    run_1.rename(alone)
    tree.root = alone
    found = tree.findings(select=("S", "D", "M", "N"), round="v6.0")
    # A run alone says that no limits were applied.
    assert [f for f in found if f[0] != "X008"] == []
