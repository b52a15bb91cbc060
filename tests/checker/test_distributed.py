"""Units on a Dask cluster: the same report, whoever dies meanwhile."""

from __future__ import annotations

import functools
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from checker import distributed as carrier
from checker import schedule, unit
from checker.discover import ResultPlan
from checker.distributed import ClusterError, ClusterLost, DaskExecutor, dask_executor
from checker.engine import Options, check
from schemas.report import encode
from tests.conftest import Grow
from tests.trees import GoodTree, good_tree

EDGE: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "edge"}
REAL_WORK = unit.work


def _many(folder: Path) -> GoodTree:
    tree = good_tree(folder, **EDGE)
    for number in range(2, 7):
        good_tree(folder, **{**EDGE, "category": "datacenter"}, system=f"box{number}", into=tree)
    tree.set_log(tree.result("Offline").detail, "result_validity", "INVALID")
    return tree


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    dask = pytest.importorskip("dask", reason='the extra "distributed" is not installed')
    distributed = pytest.importorskip(
        "distributed", reason='the extra "distributed" is not installed'
    )
    quick = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.comm.timeouts.connect": "5s",
        "distributed.worker.multiprocessing-method": "spawn",
    }
    with (
        dask.config.set(quick),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=50,
            memory_limit=0,
        ) as made,
    ):
        yield made


@pytest.fixture
def many(tmp_path: Path) -> GoodTree:
    return _many(tmp_path)


def _dies_once(
    marker: str, plans: list[ResultPlan], name: str, ids: tuple[str, ...], data: dict[str, str]
) -> Any:
    """The first worker that comes by is killed in the middle of its unit."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return REAL_WORK(plans, name, ids, data)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _always_dies(
    system: str, plans: list[ResultPlan], name: str, ids: tuple[str, ...], data: dict[str, str]
) -> Any:
    """One system's results take everybody along who touches them."""
    if any(plan.system == system for plan in plans):
        os.kill(os.getpid(), signal.SIGKILL)
    return REAL_WORK(plans, name, ids, data)


def _checked(cluster: Any, tree: GoodTree, **options: Any) -> bytes:
    with dask_executor(cluster.scheduler_address, [tree.root]) as executor:
        report = check(tree.root, Options(jobs=executor.threads, **options), executor=executor)
    return encode(report)


def test_the_same_bytes(cluster: Any, many: GoodTree) -> None:
    local = encode(check(many.root, Options(jobs=1)))
    assert _checked(cluster, many) == local
    audit = encode(check(many.root, Options(jobs=1, audit=True)))
    assert _checked(cluster, many, audit=True) == audit


def test_the_command_gives_the_same_bytes(
    cluster: Any, many: GoodTree, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative TREE is found by workers that run elsewhere."""
    monkeypatch.chdir(many.root.parent)
    arguments = ["check", many.root.name, "--format", "json", "--no-progress"]
    assert main(arguments) == 1
    local = capfd.readouterr().out
    there = ["--executor", "dask", "--scheduler", cluster.scheduler_address]
    assert main([*arguments, *there]) == 1
    assert capfd.readouterr().out == local


def test_a_worker_is_killed_in_the_middle(
    cluster: Any, many: GoodTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = encode(check(many.root, Options(jobs=1)))
    marker = tmp_path / "killed"
    monkeypatch.setattr(schedule, "work", functools.partial(_dies_once, str(marker)))
    assert _checked(cluster, many) == local
    assert marker.exists()


def test_a_result_that_kills_every_worker(
    cluster: Any, many: GoodTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It becomes a finding; what shared a unit with it is judged all the same."""
    from schemas.report import decode

    good = check(many.root, Options(jobs=1))
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    monkeypatch.setattr(schedule, "work", functools.partial(_always_dies, "box3"))
    report = decode(_checked(cluster, many))
    broken = [f for f in report.findings if f.rule == "X001"]
    assert {f.subject.system for f in broken} == {"box3"} and len(broken) == 2
    assert [r for r in report.results if r.system != "box3"] == [
        r for r in good.results if r.system != "box3"
    ]
    assert {r.status for r in report.results if r.system == "box3"} == {"invalid"}


def test_workers_must_see_the_tree(cluster: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match="does not see"),
        dask_executor(cluster.scheduler_address, [tmp_path / "nowhere"]),
    ):
        raise AssertionError


def test_workers_must_have_this_assay(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrier, "fingerprint", lambda: "another")
    with (
        pytest.raises(ClusterError, match="another version of assay"),
        dask_executor(cluster.scheduler_address, [tmp_path]),
    ):
        raise AssertionError


def test_no_scheduler(grow: Grow, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed", reason='the extra "distributed" is not installed')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        began = time.monotonic()
        with (
            pytest.raises(ClusterError, match="no Dask scheduler answers"),
            dask_executor(address, [], connect_s=1.0),
        ):
            raise AssertionError
        assert time.monotonic() - began < 10
    tree = str(grow(**EDGE).root)
    assert main(["check", tree, "--executor", "dask", "--scheduler", "nonsense://x"]) == 2
    assert "no Dask scheduler answers" in capsys.readouterr().err


def test_distributed_is_not_installed(
    grow: Grow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    tree = str(grow(**EDGE).root)
    assert main(["check", tree, "--executor", "dask", "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert 'pip install "assay[distributed]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--executor", "dask"], "needs --scheduler"),
        (["--scheduler", "tcp://127.0.0.1:1"], "belongs to --executor dask"),
    ],
)
def test_half_of_what_is_needed(
    arguments: list[str], told: str, grow: Grow, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(grow(**EDGE).root), *arguments]) == 2
    assert told in capsys.readouterr().err


def test_an_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "tree.tar"
    archive.write_bytes(b"")
    arguments = ["check", str(archive), "--executor", "dask", "--scheduler", "tcp://127.0.0.1:1"]
    assert main(arguments) == 2
    assert "unpack the archive" in capsys.readouterr().err


class _Gone:
    """A client whose cluster has lost its last worker, and whose units never end."""

    status = "running"

    def scheduler_info(self) -> dict[str, Any]:
        return {"workers": {}}

    def get_executor(self, **_: Any) -> Any:
        from concurrent.futures import Future

        class Never:
            def submit(self, *_: Any) -> Future[Any]:
                return Future()

            def shutdown(self, wait: bool) -> None:
                pass

        return Never()


def test_a_cluster_without_workers_ends_in_findings(grow: Grow) -> None:
    """No hang: each result says that it was not judged, and how to fix that."""
    executor = DaskExecutor(_Gone(), 2, [], 0.1)
    began = time.monotonic()
    report = check(grow(**EDGE).root, Options(jobs=2), executor=executor)
    executor.shutdown()
    assert time.monotonic() - began < 10
    lost = [f for f in report.findings if f.rule == "X001"]
    assert len(lost) == len(report.results) == 3 and report.summary.invalid == 3
    assert all("had no worker" in f.message and f.fix == ClusterLost.fix for f in lost)
    assert isinstance(executor.submit(print).exception(), ClusterLost)
