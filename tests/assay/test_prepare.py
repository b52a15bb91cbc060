"""`assay prepare`: the plan, the new tree, and what it never does: lose a byte or touch its input."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import cli
from assay.prepare.acting import CannotAct, backup_of, carry_out, record_of
from assay.prepare.draft import LOGS
from assay.prepare.failures import AllFail
from assay.prepare.plan import BadPlan, Plan, decode, encode, table
from assay.prepare.planning import NoTree, Wishes, plan
from checker.engine import Options, check
from tests.assay.test_kills import MOMENTS, SIGNALS, Victim
from tests.conftest import Grow
from tests.corpus import corpus_rounds, unpacked
from tests.trees import Answers, GoodTree, good_tree


def hashes(root: Path) -> dict[str, str]:
    """Path and SHA-256 of every file."""
    return {
        p.relative_to(root).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


def everything(root: Path) -> list[tuple[str, int, int]]:
    """Every entry with what a change of it would change."""
    return [
        (p.relative_to(root).as_posix(), s.st_size if p.is_file() else 0, s.st_mtime_ns)
        for p in sorted(root.rglob("*"))
        for s in [p.lstat()]
    ]


def found(root: Path, round: str) -> list[tuple[str, str, str]]:
    """(rule, severity, message) of every finding, without where it is."""
    report = check(root, Options(round=round, jobs=1))
    return sorted((f.rule, f.severity, f.message) for f in report.findings)


def prepared(tree: Path, new: Path, round: str, **wishes: object) -> Plan:
    """Plan and carry out; the input is looked at before and after."""
    before = everything(tree)
    made = plan(tree, Wishes(round=round, **wishes))  # type: ignore[arg-type]
    carry_out(made, tree, new)
    assert everything(tree) == before
    return made


# --- the plan -----------------------------------------------------------------------------------


def test_a_good_tree_is_kept_as_it_is(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    made = prepared(tree.root, tmp_path / "new", "v6.0", skip=frozenset({"truncate"}))
    assert list(made.changes()) == []
    assert hashes(tmp_path / "new") == hashes(tree.root)
    assert not backup_of(tmp_path / "new").exists()


def test_a_plan_is_data(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    tree.write(f"{tree.base}/results/.DS_Store", "x")
    made = plan(tree.root, Wishes(round="v6.0", skip=frozenset({"truncate"})))
    assert decode(encode(made)) == made
    assert [(s.kind, s.path, s.destination, s.rules) for s in made.changes()] == [
        ("leave-out", f"{tree.base}/results/.DS_Store", None, ("S121",))
    ]
    assert table(made).startswith(
        f"leave out  {tree.base}/results/.DS_Store: a leftover of an editor or an operating system\n"
    )
    with pytest.raises(BadPlan, match="version 9"):
        decode(encode(made).replace(b'"format_version": 1', b'"format_version": 9'))


def test_nothing_is_written_outside_or_over(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    made = plan(tree.root, Wishes(round="v6.0"))
    (tmp_path / "taken").mkdir()
    for new, backup, why in (
        (tree.root / "new", None, "outside TREE"),
        (tmp_path / "taken", None, "exists already"),
        (tmp_path / "no" / "new", None, "no folder"),
        (tmp_path / "new", tmp_path / "new" / "logs", "outside NEW"),
        (tmp_path / "new", tree.root / "logs", "outside TREE"),
    ):
        with pytest.raises(CannotAct, match=why):
            carry_out(made, tree.root, new, backup)
    escaping = decode(encode(made).replace(b'"destination": "closed', b'"destination": "../closed'))
    with pytest.raises(CannotAct, match="outside the tree"):
        carry_out(escaping, tree.root, tmp_path / "new")
    tree.append(tree.result().detail, "\n")
    with pytest.raises(CannotAct, match="changed since"):
        carry_out(made, tree.root, tmp_path / "new")
    assert sorted(p.name for p in tmp_path.iterdir() if p != tree.root.parent) == ["taken"]


def test_two_results_of_one_name_are_never_mixed(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet", scenarios=["Offline", "SingleStream"])
    offline = tree.root / tree.result("Offline").path
    other = offline.with_name("offline")
    shutil.copytree(offline, other)
    tree.append(other / "performance/run_1/mlperf_log_detail.txt", "\n")
    made = prepared(tree.root, tmp_path / "new", "v6.0", skip=frozenset({"truncate"}))
    assert len(made.decisions) == 1 and "give it a system of its own" in made.decisions[0]
    out = [s.path for s in made.steps if s.kind == "leave-out"]
    assert out == [tree.relative(p) for p in sorted(other.rglob("*")) if p.is_file()]
    assert hashes(tmp_path / "new" / tree.result("Offline").path) == hashes(offline)
    kept = backup_of(tmp_path / "new") / tree.relative(other)
    assert hashes(kept).items() <= hashes(other).items()
    assert "performance/run_1/mlperf_log_detail.txt" in hashes(kept)


def test_a_part_of_a_submission_is_put_in_its_place(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    part = tmp_path / "runs"
    shutil.copytree(tree.root / tree.base / "results" / "box1", part)
    made = plan(part, Wishes(round="v6.0", division="closed", submitter="Acme", system="box1"))
    results = [s for s in made.steps if (s.destination or "").startswith("closed/Acme/results/")]
    assert {s.destination for s in results} == {
        p for p in hashes(tree.root) if p.startswith("closed/Acme/results/")
    }
    with pytest.raises(NoTree, match="--division and --submitter"):
        plan(part, Wishes(round="v6.0", system="box1"))
    # Its parent folders say where it is.
    for inside in ("", "results/box1", "results/box1/resnet"):
        made = plan(tree.root / tree.base / inside, Wishes(round="v6.0", failed="keep"))
        assert {s.destination for s in made.steps if s.path is not None} == {
            p for p in hashes(tree.root) if p.startswith(f"{tree.base}/{inside}".rstrip("/") + "/")
        }
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoTree, match="no submission"):
        plan(tmp_path / "empty", Wishes(round="v6.0"))


# --- layouts ------------------------------------------------------------------------------------


def test_to_the_layout_inside_the_results_and_back(grow: Grow, tmp_path: Path) -> None:
    tree = grow(
        round="v5.1", benchmark="resnet", scenarios=["Offline", "SingleStream", "MultiStream"]
    )
    skip = frozenset({"truncate", "failed", "infer", "describe"})
    there, back, guessed = (tmp_path / name for name in ("there", "back", "guessed"))
    prepared(tree.root, there, "v6.0", skip=skip)
    result = there / tree.base / "results/box1/resnet/Offline"
    assert (result / "measurements.json").is_file() and (result / "TEST01").is_dir()
    assert {p.name for p in (there / tree.base).iterdir()} == {
        "documentation",
        "results",
        "src",
        "systems",
    }
    prepared(there, back, "v5.1", record=decode(record_of(there).read_bytes()), skip=skip)
    assert hashes(back) == hashes(tree.root)
    prepared(there, guessed, "v5.1", skip=skip)
    assert sorted(hashes(guessed).values()) == sorted(hashes(tree.root).values())
    assert found(guessed, "v5.1") == found(tree.root, "v5.1")


@pytest.mark.corpus
@pytest.mark.skipif("v5.1" not in corpus_rounds(), reason="no corpus: set ASSAY_CORPUS")
def test_a_published_round_to_the_next_layout_and_back(tmp_path: Path) -> None:
    tree = unpacked("v5.1")
    there, back = tmp_path / "there", tmp_path / "back"
    prepared(tree, there, "v6.0", skip=frozenset({"failed", "infer", "describe"}))
    earlier = decode(record_of(there).read_bytes())
    prepared(there, back, "v5.1", record=earlier, skip=frozenset({"failed", "infer", "describe"}))
    assert hashes(back) == hashes(tree)
    assert found(back, "v5.1") == found(tree, "v5.1")


# --- messes -------------------------------------------------------------------------------------

Mess = Callable[[GoodTree], None]


def _put(*names: str) -> Mess:
    def mess(tree: GoodTree) -> None:
        for name in names:
            tree.write(f"{tree.base}/{name}", b"left over\n")

    return mess


def _named(old: str, new: str) -> Mess:
    """A folder or file below the submitter under another name, where it is still there."""

    def mess(tree: GoodTree) -> None:
        for base in _bases(tree):
            place = base / old
            if place.exists():
                place.rename(place.with_name(new))
                return

    return mess


def _bases(tree: GoodTree) -> list[Path]:
    return [p for p in tree.root.rglob("Acme") if p.is_dir()]


def _double(*path: str) -> Mess:
    def mess(tree: GoodTree) -> None:
        for base in _bases(tree):
            place = base.joinpath(*path)
            if place.is_dir():
                inner = place.with_name("inner")
                place.rename(inner)
                place.mkdir()
                inner.rename(place / place.name)
                return

    return mess


def _division(name: str) -> Mess:
    def mess(tree: GoodTree) -> None:
        if (tree.root / "closed").is_dir():
            (tree.root / "closed").rename(tree.root / name)

    return mess


def _wrapped(tree: GoodTree) -> None:
    inside = list(tree.root.iterdir())
    (tree.root / "upload").mkdir()
    for place in inside:
        place.rename(tree.root / "upload" / place.name)


def _runs(name: str) -> Mess:
    def mess(tree: GoodTree) -> None:
        for place in sorted(tree.root.rglob("run_1")):
            place.rename(place.with_name(name))

    return mess


def _no_run_folder(tree: GoodTree) -> None:
    for place in sorted(tree.root.rglob("run_1")):
        for file in place.iterdir():
            file.rename(place.parent / file.name)
        place.rmdir()


def _scenarios(change: Callable[[str], str]) -> Mess:
    def mess(tree: GoodTree) -> None:
        for name in ("Offline", "SingleStream", "MultiStream"):
            for place in sorted(tree.root.rglob(name)):
                if place.is_dir():
                    place.rename(place.with_name(change(name)))

    return mess


def _everywhere(old: str, new: str) -> Mess:
    def mess(tree: GoodTree) -> None:
        for place in sorted(tree.root.rglob(old), reverse=True):
            place.rename(place.with_name(new))

    return mess


def _empty(tree: GoodTree) -> None:
    (_bases(tree)[0] / "results" / "left over").mkdir(parents=True, exist_ok=True)


def _linked(tree: GoodTree) -> None:
    (_bases(tree)[0] / "README.link").symlink_to("nowhere")


def _whole_log(tree: GoodTree) -> None:
    """An accuracy log as LoadGen wrote it, and accuracy.txt without its hash."""
    for log in sorted(tree.root.rglob("accuracy/mlperf_log_accuracy.json")):
        if "TEST" not in log.as_posix():
            answers = Answers(tree.round.benchmarks["resnet"], "resnet")
            log.write_text(answers.log((index, index) for index in range(50_000)))
            scores = log.with_name("accuracy.txt")
            lines = [line for line in scores.read_text().splitlines() if "hash=" not in line]
            scores.write_text("\n".join(lines) + "\n")
            return


def _blank_system(tree: GoodTree) -> None:
    for place in sorted(tree.root.rglob("box1*"), reverse=True):
        place.rename(place.with_name(place.name.replace("box1", "box 1")))


def _large(tree: GoodTree) -> None:
    with (_bases(tree)[0] / "weights.bin").open("wb") as stream:
        stream.truncate(60 << 20)


MESSES: dict[str, Mess] = {
    "finder": _put("results/.DS_Store", "results/box1/._resnet"),
    "swap": _put("systems/.box1.json.swp", "results/box1/resnet/notes.txt~"),
    "python": _put("documentation/__pycache__/x.cpython-311.pyc"),
    "notebook": _put("results/.ipynb_checkpoints/x.json"),
    "windows": _put("Thumbs.db", "documentation/desktop.ini"),
    "hidden": _put("documentation/.secret"),
    "empty": _empty,
    "dangling": _linked,
    "large": _large,
    "capital division": _division("Closed"),
    "shouted division": _division("CLOSED"),
    "wrapped": _wrapped,
    "result": _named("results", "result"),
    "Results": _named("results", "Results"),
    "system": _named("systems", "system"),
    "docs": _named("documentation", "docs"),
    "code": _named("src", "code"),
    "source": _named("src", "source"),
    "double system": _double("results", "box1"),
    "double results": _double("results"),
    "double benchmark": _double("results", "box1", "resnet"),
    "double submitter": _double(),
    "lower": _scenarios(str.lower),
    "upper": _scenarios(str.upper),
    "snake": _scenarios({"Offline": "offline", "SingleStream": "single_stream", "MultiStream": "multi-stream"}.__getitem__),
    "run_0": _runs("run_0"),
    "Run1": _runs("Run1"),
    "no run": _no_run_folder,
    "Performance": _everywhere("performance", "Performance"),
    "alias": _everywhere("resnet", "resnet50"),
    "ResNet-50": _everywhere("resnet", "ResNet50"),
    "test01": _everywhere("TEST01", "test01"),
    "readme": _everywhere("README.md", "readme.md"),
    "description": _named("systems/box1.json", "Box1.json"),
    "blank": _blank_system,
    "whole log": _whole_log,
}  # fmt: skip


def test_there_are_thirty_messes() -> None:
    assert len(MESSES) >= 30


@pytest.fixture(scope="module")
def good() -> GoodTree:
    with tempfile.TemporaryDirectory() as top:
        yield good_tree(Path(top), round="v6.0", benchmark="resnet")  # type: ignore[misc]


def _log_hashes(root: Path) -> set[str]:
    return {
        hashlib.sha256(p.read_bytes()).hexdigest()
        for p in root.rglob("*")
        if p.is_file() and p.name in LOGS
    }


def _tidied(good: GoodTree, messes: list[str]) -> None:
    with tempfile.TemporaryDirectory() as top:
        root = Path(top) / "submission"
        shutil.copytree(good.root, root, symlinks=True)
        tree = GoodTree(root, good.round, good.names)
        tree.scenarios = good.scenarios
        for name in messes:
            MESSES[name](tree)
        new = Path(top) / "new"
        made = prepared(root, new, "v6.0")
        report = check(new, Options(round="v6.0", jobs=1))
        assert [(f.rule, f.message) for f in report.findings if f.severity == "error"] == []
        assert (report.summary.valid, report.summary.results) == (3, 3)
        assert made.decisions == []
        kept = _log_hashes(new)
        if backup_of(new).exists():
            kept |= _log_hashes(backup_of(new))
        assert _log_hashes(root) - kept == set()
        again = plan(new, Wishes(round="v6.0"))
        assert list(again.changes()) == []


@pytest.mark.parametrize("name", MESSES)
def test_each_mess_is_tidied(good: GoodTree, name: str) -> None:
    _tidied(good, [name])


@pytest.mark.parametrize(
    "messes", [["hidden", "docs"], ["double submitter", "large"], ["description", "blank"]]
)
def test_messes_that_hide_each_other(good: GoodTree, messes: list[str]) -> None:
    _tidied(good, messes)


@settings(max_examples=int(os.environ.get("ASSAY_MESSES", "10")), derandomize=True)
@given(st.lists(st.sampled_from(sorted(MESSES)), min_size=2, max_size=8, unique=True))
def test_messes_together_are_tidied(good: GoodTree, messes: list[str]) -> None:
    _tidied(good, messes)


# --- accuracy logs ------------------------------------------------------------------------------


def test_a_whole_log_is_cut_and_kept(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    _whole_log(tree)
    made = prepared(tree.root, tmp_path / "new", "v6.0")
    cut = next(s for s in made.steps if s.kind == "truncate" and s.size > 1_000_000)
    assert cut.path is not None and cut.destination == cut.path and cut.backup == cut.path
    whole = (tree.root / cut.path).read_bytes()
    digest = hashlib.sha256(whole).hexdigest()
    short = (tmp_path / "new" / cut.path).read_bytes()
    assert short == whole[:4096] + b"\n\n...\n\n" + whole[-4096:]
    scores = (tmp_path / "new" / cut.path).with_name("accuracy.txt").read_text()
    assert scores.endswith(f"\nhash={digest}\n")
    assert (backup_of(tmp_path / "new") / cut.path).read_bytes() == whole


def test_a_log_with_another_hash_stays_whole(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    _whole_log(tree)
    log = next(p for p in tree.root.rglob("*accuracy.json") if p.stat().st_size > 1_000_000)
    with log.with_name("accuracy.txt").open("a") as stream:
        stream.write(f"hash={'ab' * 32}\n")
    made = plan(tree.root, Wishes(round="v6.0"))
    outcome = carry_out(made, tree.root, tmp_path / "new")
    assert len(outcome.notes) == 1 and "another run" in outcome.notes[0]
    assert (tmp_path / "new" / tree.relative(log)).read_bytes() == log.read_bytes()


# --- the command --------------------------------------------------------------------------------


def test_the_command(grow: Grow, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    tree.write(f"{tree.base}/notes.bak", "x")
    new = tmp_path / "new"
    command = [
        "prepare",
        str(tree.root),
        "--round",
        "6.0",
        "--exclude",
        "*.bak",
        "--skip",
        "truncate",
    ]
    assert cli.main([*command, "--dry-run", "--format", "json"]) == 0
    assert [s.reason for s in decode(capsys.readouterr().out.encode()).changes()] == [
        "excluded by a pattern"
    ]
    assert not new.exists()
    assert cli.main(command) == 2
    assert "--out NEW" in capsys.readouterr().err
    assert cli.main([*command, "--out", str(new)]) == 0
    assert "3 of 3 results valid; 0 errors" in capsys.readouterr().out
    assert cli.main([*command, "--out", str(new)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert cli.main(["prepare", str(tmp_path), "--round", "v1", "--dry-run"]) == 2


def test_killed_at_any_moment(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="demo", benchmark="digits", category="datacenter")
    (tree.root / tree.base / "results").rename(tree.root / tree.base / "Results")
    for log in tree.root.rglob("mlperf_log_accuracy.json"):  # to be cut, and kept whole beside NEW
        log.write_bytes(log.read_bytes().rstrip()[:-1] + b" " * 3_000_000 + b"]\n")
        if (scores := log.with_name("accuracy.txt")).exists():
            lines = scores.read_text().splitlines(keepends=True)
            scores.write_text("".join(line for line in lines if "hash" not in line))
    before = hashes(tree.root)
    place = tmp_path / "out"
    place.mkdir()
    new = place / "new"
    victim = Victim(
        tmp_path / "scratch", "prepare", str(tree.root), "--round", "demo", "--out", str(new)
    )
    length = victim.run()
    complete = hashes(place)
    assert {path.split("/")[0] for path in complete} == {"new", "new.plan.json", "new.whole-logs"}
    chance = random.Random(7)
    for number in SIGNALS:
        for _ in range(MOMENTS):
            shutil.rmtree(place)
            place.mkdir()
            status = victim.kill(number, chance.uniform(0, length * 1.05))
            assert status in (0, 1, 128 + number, -number)
            assert hashes(tree.root) == before
            left = list(place.iterdir())
            if new.exists():
                assert hashes(place) == complete
            else:
                assert status != 0
                assert left == [] or number == signal.SIGKILL
                if left:
                    victim.run()
                    assert hashes(place) == complete, "what a killed one left is a hindrance"


# --- inferred results ---------------------------------------------------------------------------


def _without(tree: GoodTree, name: str) -> None:
    """Take a scenario, or a benchmark, out of results, measurements and compliance."""
    for place in [p for p in tree.root.rglob(name) if p.is_dir()]:
        shutil.rmtree(place)


@pytest.mark.parametrize("round", ["v5.1", "v6.0"])
def test_missing_scenarios_are_inferred(grow: Grow, tmp_path: Path, round: str) -> None:
    tree = grow(round=round, benchmark="resnet")
    _without(tree, "MultiStream")
    _without(tree, "Offline")
    prepared(tree.root, tmp_path / "new", round)
    report = check(tmp_path / "new", Options(round=round, jobs=1))
    assert [(f.rule, f.path) for f in report.findings if f.severity == "error"] == []
    log = tree.result("SingleStream").detail
    assert [(r.scenario, r.inferred_from, r.metric and r.metric.value) for r in report.results] == [
        ("MultiStream", "SingleStream", 8 * tree.get_log(log, "early_stopping_latency_ms") / 1e6),
        ("Offline", "SingleStream", tree.get_log(log, "result_qps_without_loadgen_overhead")),
        ("SingleStream", None, tree.get_log(log, "early_stopping_latency_ss") / 1e6),
    ]
    folder = tree.measurements("Offline").parent.relative_to(tree.root)
    readme = (tmp_path / "new" / folder / "README.md").read_text()
    assert "Inferred: this result is a copy of box1/resnet/SingleStream. " in readme


def test_an_estimate_of_zero_is_not_inferred_from(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    _without(tree, "MultiStream")
    tree.set_log(tree.result("SingleStream").detail, "early_stopping_latency_ms", 0)
    made = plan(tree.root, Wishes(round="v6.0", failed="keep"))
    assert made.count("infer") == 0
    assert len(made.decisions) == 1 and "MultiStream cannot be inferred" in made.decisions[0]


def test_the_lower_target_is_inferred_from_the_higher(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="llama2-70b-99.9", category="datacenter")
    prepared(tree.root, tmp_path / "new", "v6.0")
    report = check(tmp_path / "new", Options(round="v6.0", jobs=1))
    assert [(f.rule, f.path) for f in report.findings if f.severity == "error"] == []
    metrics = {(r.benchmark, r.scenario): r.metric for r in report.results}
    assert {name for name, _ in metrics} == {"llama2-70b-99", "llama2-70b-99.9"}
    for (name, scenario), metric in metrics.items():
        assert metric == metrics["llama2-70b-99.9", scenario], name
    assert (tmp_path / "new" / tree.base / "src/llama2-70b-99").is_dir()


def _published() -> list[str]:
    return [name for name in corpus_rounds(rebuilt=True) if name >= "v1.0"]


@pytest.mark.corpus
@pytest.mark.skipif(not corpus_rounds(), reason="no corpus: set ASSAY_CORPUS")
def test_inferred_results_equal_the_published_ones(tmp_path: Path) -> None:
    """Every published result that was inferred is taken out and inferred again."""
    compared = 0
    (tmp_path / "new").mkdir()
    for round in _published():
        tree = tmp_path / round
        shutil.copytree(unpacked(round), tree, symlinks=True)
        rows = [r for r in check(tree, Options(round=round, jobs=1)).results if r.inferred_from]
        for row in rows:
            for top in ("results", "measurements", "compliance"):
                beside = tree / row.division / row.submitter / top / row.system / row.directory
                for place in beside.iterdir() if beside.is_dir() else ():
                    if place.name.lower() == row.scenario.lower():
                        shutil.rmtree(place)
        if not rows:
            continue
        skip = frozenset({"junk", "names", "layout", "describe", "failed", "truncate"})
        prepared(tree, tmp_path / "new" / round, round, skip=skip, infer_beyond=True)
        again = {
            r.key: r for r in check(tmp_path / "new" / round, Options(round=round, jobs=1)).results
        }
        for row in rows:
            made = again[row.key]
            assert (made.metric, made.accuracy, made.power, made.status, made.inferred_from) == (
                row.metric,
                row.accuracy,
                row.power,
                row.status,
                row.inferred_from,
            ), row.key
            compared += 1
    assert compared >= 8


# --- results that fail, documents that are missing --------------------------------------------------


def _break(tree: GoodTree, scenario: str = "Offline") -> None:
    tree.set_log(tree.result(scenario).detail, "result_validity", "INVALID")


def test_what_fails_is_left_out_with_a_list(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    _break(tree)
    made = prepared(tree.root, tmp_path / "new", "v6.0")
    path = tree.result("Offline").path
    assert [d.partition(": ")[0] for d in made.decisions] == [f"{path} was left out"]
    assert "P102" in made.decisions[0]
    out = {s.path for s in made.steps if s.kind == "leave-out"}
    assert out == {p for p in hashes(tree.root) if p.startswith(f"{path}/")}
    assert "Offline" not in {p.name for p in (tmp_path / "new" / path).parent.iterdir()}
    detail = tree.relative(tree.result("Offline").detail)
    assert hashes(backup_of(tmp_path / "new"))[detail] == hashes(tree.root)[detail]
    assert plan(tree.root, Wishes(round="v6.0", failed="keep")).decisions == []


def test_a_tree_of_which_all_fails_is_refused(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    with pytest.raises(AllFail, match=r"rules of v5.0.* --keep-failed"):
        plan(tree.root, Wishes(round="v5.0"))


@pytest.mark.parametrize("round", ["v5.1", "v6.0"])
def test_what_fails_in_closed_moves_to_open(grow: Grow, tmp_path: Path, round: str) -> None:
    tree = grow(round=round, benchmark="resnet")
    scores = tree.result("Offline").accuracy_text
    text = scores.read_text().splitlines()
    scores.write_text("\n".join(["accuracy=70.000%, good=35000, total=50000", *text[1:]]) + "\n")
    made = prepared(tree.root, tmp_path / "new", round, failed="open")
    report = check(tmp_path / "new", Options(round=round, jobs=1))
    assert [(f.rule, f.message) for f in report.findings if f.severity == "error"] == []
    assert {(r.division, r.scenario) for r in report.results} == {
        ("open", s) for s in ("Offline", "SingleStream", "MultiStream")
    }
    mapping = json.loads((tmp_path / "new/open/Acme/model_mapping.json").read_text())
    assert mapping == {"resnet": "resnet"}
    described = json.loads((tmp_path / "new/open/Acme/systems/box1.json").read_text())
    assert described["division"] == "open"
    assert made.decisions == []
    assert not (tmp_path / "new/closed").exists()


def test_documents_are_filled_from_the_logs(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    tree.remove(tree.system_path)
    conf = tree.result("Offline").measurements / "user.conf"
    tree.remove(conf)
    tree.remove(tree.measurements("Offline"))
    new = tmp_path / "new"
    made = prepared(tree.root, new, "v6.0")
    assert [(s.kind, s.destination) for s in made.changes() if s.path is None] == [
        ("write", tree.relative(tree.measurements("Offline"))),
        ("write", tree.relative(conf)),
        ("write", tree.system_path),
    ]
    described = json.loads((new / tree.system_path).read_text())
    assert list(described) == tree.round.system_description.required
    version = tree.get_log(tree.result("Offline").detail, "loadgen_version")
    assert described["sw_notes"] == f"LoadGen {version}" and described["cooling"] == ""
    rate = tree.get_log(tree.result("Offline").detail, "requested_offline_expected_qps")
    assert f"*.Offline.target_qps = {rate}\n" in (new / tree.relative(conf)).read_text()
    report = check(new, Options(round="v6.0", jobs=1))
    assert {f.rule for f in report.findings if f.severity == "error"} == {"D104", "M104"}
    assert any("fill in" in text and "cooling" in text for text in made.decisions)


def test_missing_fields_are_added_and_misspelt_ones_renamed(grow: Grow, tmp_path: Path) -> None:
    tree = grow(round="v6.0", benchmark="resnet")
    before = json.loads((tree.root / tree.system_path).read_text())

    def damage(fields: dict[str, str]) -> dict[str, str]:
        del fields["hw_notes"]
        return {("coolling" if k == "cooling" else k): v for k, v in fields.items()}

    tree.edit_json(tree.system_path, damage)
    made = prepared(tree.root, tmp_path / "new", "v6.0")
    after = json.loads((tmp_path / "new" / tree.system_path).read_text())
    assert after == {**before, "hw_notes": ""}
    edit = next(s for s in made.changes() if s.kind == "edit")
    assert edit.reason == "fields of v6.0: coolling is spelled cooling; hw_notes added"
