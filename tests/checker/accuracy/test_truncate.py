from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from checker.accuracy import truncate
from checker.accuracy.log import read_log
from checker.accuracy.problem import AccuracyError
from tests.checker.accuracy.conftest import log_bytes

LOG = "mlperf_log_accuracy.json"
LONG = log_bytes([(at, b"\x00\x80\xf8\x43") for at in range(2000)])
SHORT = log_bytes([(at, b"\x00\x80\xf8\x43") for at in range(20)])
DIGEST = hashlib.sha256(LONG).hexdigest()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A result with scores, a small one, a compliance test without accuracy.txt."""
    tree = tmp_path / "submission"
    system = tree / "closed" / "X" / "results" / "s"
    for folder, log, scores in (
        ("resnet/Offline/accuracy", LONG, "accuracy=76.4%\n"),
        ("resnet/Server/accuracy", SHORT, "accuracy=76.4%\ndébris"),
        ("resnet/Offline/TEST01/accuracy", LONG, None),
        ("resnet/Offline/performance/run_1", LONG, None),
        ("llama2-70b-99/Offline/TEST06/accuracy", LONG, None),  # which verifies the whole log
    ):
        (system / folder).mkdir(parents=True)
        (system / folder / LOG).write_bytes(log)
        if scores is not None:
            (system / folder / "accuracy.txt").write_text(scores, encoding="latin-1")
    return tree


def state(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def by_folder(items: list[truncate.Action]) -> dict[str, str]:
    return {"/".join(a.relative.parts[5:-2]): a.kind for a in items}


def test_plan_does_nothing(tree: Path) -> None:
    before = state(tree)
    actions = truncate.plan(tree)
    assert by_folder(actions) == {
        "Offline/TEST01": "truncate",
        "Offline": "truncate",
        "Server": "hash",
    }
    assert state(tree) == before
    assert "will be made" in actions[0].line()


def test_apply_keeps_originals_and_runs_once(tree: Path, tmp_path: Path) -> None:
    before, backup = state(tree), tmp_path / "backup"
    seen: list[tuple[int, int]] = []
    outcomes = truncate.apply(
        truncate.plan(tree), backup, progress=lambda done, total: seen.append((done, total))
    )
    assert [outcome.done for outcome in outcomes] == [True] * 3
    assert seen[-1] == (len(LONG) * 2 + len(SHORT),) * 2
    log = tree / "closed/X/results/s/resnet/Offline/accuracy" / LOG
    raw = log.read_bytes()
    assert raw == LONG[:4096] + b"\n\n...\n\n" + LONG[-4096:]
    reader = read_log(log)
    reader.drain()
    assert reader.truncated
    scores = log.with_name("accuracy.txt")
    assert scores.read_text() == f"accuracy=76.4%\n\nhash={DIGEST}\n"
    test01 = tree / "closed/X/results/s/resnet/Offline/TEST01/accuracy/accuracy.txt"
    assert test01.read_text() == f"\nhash={DIGEST}\n"
    for path, content in state(backup).items():
        assert before[path] == content
    assert len(state(backup)) == 3  # two logs and one accuracy.txt
    after = state(tree)
    assert after["closed/X/results/s/resnet/Offline/performance/run_1/" + LOG] == LONG
    again = truncate.plan(tree)
    assert {action.kind for action in again} == {"done"}
    assert not any(outcome.done for outcome in truncate.apply(again, backup))
    assert state(tree) == after


def test_a_break_between_hash_and_truncation_is_mended(tree: Path, tmp_path: Path) -> None:
    scores = tree / "closed/X/results/s/resnet/Offline/accuracy/accuracy.txt"
    scores.write_text(f"accuracy=76.4%\n\nhash={DIGEST.upper()}\n")
    truncate.apply(truncate.plan(tree), tmp_path / "backup")
    assert scores.read_text().count("hash=") == 1


def test_hash_of_another_run_leaves_the_log_alone(tree: Path, tmp_path: Path) -> None:
    log = tree / "closed/X/results/s/resnet/Offline/accuracy" / LOG
    log.with_name("accuracy.txt").write_text(f"hash={'0' * 64}\n")
    outcomes = truncate.apply(truncate.plan(tree), tmp_path / "backup")
    [kept] = [o for o in outcomes if o.action.path == log.resolve()]
    assert not kept.done and "another run" in kept.reason
    assert log.read_bytes() == LONG


def test_a_backup_that_differs_is_not_overwritten(tree: Path, tmp_path: Path) -> None:
    [action] = [a for a in truncate.plan(tree) if "TEST01" in str(a.relative)]
    other = tmp_path / "backup" / action.relative
    other.parent.mkdir(parents=True)
    other.write_bytes(b"another log")
    [outcome] = truncate.apply([action], tmp_path / "backup")
    assert not outcome.done and "differs" in outcome.reason
    assert action.path.read_bytes() == LONG and other.read_bytes() == b"another log"


def test_a_log_that_changed_since_the_plan(tree: Path, tmp_path: Path) -> None:
    actions = truncate.plan(tree)
    actions[0].path.write_bytes(LONG + b"\n")
    assert not truncate.apply(actions, tmp_path / "backup")[0].done
    assert actions[0].path.read_bytes() == LONG + b"\n"


def test_truncated_without_hash_cannot_be_mended(tree: Path) -> None:
    log = tree / "closed/X/results/s/resnet/Offline/accuracy" / LOG
    log.write_bytes(LONG[:4096] + b"\n\n...\n\n" + LONG[-4096:])
    assert by_folder(truncate.plan(tree))["Offline"] == "skip"


def test_links_are_never_followed(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / LOG).write_bytes(LONG)
    (outside / "accuracy.txt").write_text("mine\n")
    results = tree / "closed/X/results/s/bert"
    results.mkdir()
    (results / "accuracy").symlink_to(outside, target_is_directory=True)
    linked = tree / "closed/X/results/s/resnet/SingleStream/accuracy"
    linked.mkdir(parents=True)
    (linked / LOG).symlink_to(outside / LOG)
    scores = tree / "closed/X/results/s/resnet/Offline/accuracy/accuracy.txt"
    scores.unlink()
    scores.symlink_to(outside / "accuracy.txt")
    actions = truncate.plan(tree)
    assert by_folder(actions)["SingleStream"] == "skip" and by_folder(actions)["Offline"] == "skip"
    truncate.apply(actions, tmp_path / "backup")
    assert state(outside) == {LOG: LONG, "accuracy.txt": b"mine\n"}


def test_refusals(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(AccuracyError, match="outside the tree"):
        truncate.apply(truncate.plan(tree), tree / "backup")
    with pytest.raises(AccuracyError):
        truncate.plan(tmp_path / "absent")
    assert truncate.plan([tree, tree]) == truncate.plan(tree)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_backup_that_cannot_be_written(tree: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    before = state(tree)
    assert not any(o.done for o in truncate.apply(truncate.plan(tree)[:1], locked / "backup"))
    assert state(tree) == before


def test_hard_links_keep_what_they_had(tree: Path, tmp_path: Path) -> None:
    """Another name of accuracy.txt or of the log, perhaps outside the tree, is not written to."""
    scores = tree / "closed/X/results/s/resnet/Offline/accuracy/accuracy.txt"
    others = {tmp_path / "scores": scores, tmp_path / "log": scores.with_name(LOG)}
    for other, own in others.items():
        os.link(own, other)
    before = {other: other.read_bytes() for other in others}
    truncate.apply(truncate.plan(tree), tmp_path / "backup")
    assert scores.read_text().endswith(f"hash={DIGEST}\n")
    assert {other: other.read_bytes() for other in others} == before


def test_a_hash_that_came_since_the_plan_is_compared(tree: Path, tmp_path: Path) -> None:
    actions = truncate.plan(tree)
    scores = tree / "closed/X/results/s/resnet/Offline/accuracy/accuracy.txt"
    scores.write_text(f"hash={'0' * 64}\n")
    [kept] = [o for o in truncate.apply(actions, tmp_path / "backup") if not o.done]
    assert "another run" in kept.reason and kept.action.scores == scores.resolve()
    assert scores.with_name(LOG).read_bytes() == LONG


@pytest.mark.parametrize("when", ["backup", "accuracy.txt", "log"])
def test_a_full_disk(
    when: str, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the outcome says is what is there, nothing half-written is left, a second try works."""
    [action] = [
        a for a in truncate.plan(tree) if a.relative.parts[-3:-1] == ("Offline", "accuracy")
    ]
    before = state(tree)
    calls = {"backup": 0, "accuracy.txt": 2, "log": 3}
    real, count = os.fsync, iter(range(1000))

    def full(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode) and next(count) == calls[when]:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    [outcome] = truncate.apply([action], tmp_path / "backup")
    assert not outcome.done and "No space left on device" in outcome.reason
    after = state(tree)
    assert set(after) == set(before) and after[str(action.relative)] == LONG
    if when == "log":
        assert outcome.reason.startswith("accuracy.txt has the hash now, the log is whole")
        assert after[str(action.relative.with_name("accuracy.txt"))].endswith(
            b"hash=%b\n" % DIGEST.encode()
        )
    else:
        assert outcome.reason.startswith("left as it was") and after == before
    monkeypatch.setattr(os, "fsync", real)
    [again] = truncate.apply(truncate.plan(action.path.parent), tmp_path / "second")
    assert again.done and action.path.read_bytes() == LONG[:4096] + b"\n\n...\n\n" + LONG[-4096:]
    assert not [p for p in (*tree.rglob("*"), *tmp_path.rglob("*")) if "part" in p.name]
