"""How queries become batches: several workers, a deadline, and who answers what."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

import runner.sut
from runner import BackendError, Job, SettingsError, measure
from runner.backends import make_backend
from runner.benchmarks.digits import DIGITS
from runner.datasets.digits import Digits
from runner.logs import DETAIL, read_detail
from runner.qsl import Library
from runner.sut import OfflineSut, PoolSut, Responses, ServerSut, Sut, UnbatchedServerSut
from tests.runner.test_run import Listener, job


class Backend:
    """Answers by the images' own label; remembers which batches ran, and how many at once."""

    framework = "test"

    def __init__(self, during: Callable[[], object] = lambda: None) -> None:
        self.labels = Digits().labels
        self.batches: list[list[int]] = []
        self.at_once = self.most_at_once = 0
        self._during = during
        self._lock = threading.Lock()

    def load(self, benchmark: Any, model: Any, dataset: Any) -> None: ...

    def infer(self, feed: Any, indices: Sequence[int]) -> Sequence[NDArray[Any]]:
        with self._lock:
            self.batches.append(list(indices))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert len(feed["image"]) == len(indices)
        self._during()
        with self._lock:
            self.at_once -= 1
        return [np.eye(10, dtype=np.float32)[self.labels[np.asarray(indices)]]]

    def close(self) -> None: ...


class Answers:
    """What LoadGen would have got."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[int, int] = {}

        class Response:
            __slots__ = ("id", "size")

            def __init__(self, id: int, data: int, size: int) -> None:
                self.id, self.size = id, size

        def complete(responses: list[Any]) -> None:
            for response in responses:
                assert response.id not in self.sizes  # nothing is answered twice
                self.sizes[response.id] = response.size

        monkeypatch.setattr(
            Sut, "_make_responses", staticmethod(lambda: Responses(complete, Response))
        )


def fail(error: BaseException) -> NoReturn:
    raise AssertionError(error)


@pytest.fixture
def library() -> Library:
    found = Library(Digits())
    found.load(range(200))
    return found


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_an_offline_query(
    workers: int, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first inferences wait for one another.
    together, places = threading.Barrier(workers), iter(range(workers))

    def during() -> None:
        if next(places, None) is not None:
            together.wait(60)

    answers, backend = Answers(monkeypatch), Backend(during)
    sut = PoolSut(DIGITS, backend, library, 16, fail, workers)
    indices = [k % 200 for k in range(330)]
    sut.issue([1000 + k for k in range(330)], indices)
    sut.close()
    assert sorted(answers.sizes) == [1000 + k for k in range(330)]
    assert sut.done == 330
    assert backend.most_at_once == workers
    assert sorted(map(len, backend.batches)) == [10] + [16] * 20


def test_server_takes_what_waits(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    answers, backend = Answers(monkeypatch), Backend(lambda: gate.wait(60))
    sut = ServerSut(DIGITS, backend, library, 4, fail, limit_s=0.02)
    for k in range(10):
        sut.issue([k], [k])
        if k == 0:
            wait(lambda: backend.at_once == 1)
    time.sleep(0.03)
    gate.set()
    sut.close()
    assert sorted(answers.sizes) == list(range(10))
    assert [len(batch) for batch in backend.batches] == [1, 4, 4, 1]
    assert sut.issued == sut.done == 10
    assert sut.late == len(sut.recent) == 10
    intime = ServerSut(DIGITS, backend, library, 4, fail, limit_s=60)
    intime.issue([10], [0])
    intime.close()
    assert (intime.late, len(intime.recent)) == (0, 1)


def test_an_unbatched_server_knows_what_was_late(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def during() -> None:
        now[0] += 0.02

    monkeypatch.setattr(runner.sut, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    answers, backend = Answers(monkeypatch), Backend(during)
    sut = UnbatchedServerSut(DIGITS, backend, library, fail, [0.0, 0.0, 0.0, 0.03, 0.06], 0.045)
    sut.issue([0], [7])
    sut.issue([1, 2], [3, 4])  # as LoadGen coalesces
    sut.issue([3], [5])
    sut.issue([4], [5])
    sut.issue([5], [9])  # due at a time that is not known
    sut.close()
    assert sorted(answers.sizes) == list(range(6)) and sut.done == 6
    assert [len(batch) for batch in backend.batches] == [1] * 6
    # Answered at 20, 60, 60, 80, 100 and 120 ms.
    assert list(sut.recent) == pytest.approx([0.02, 0.06, 0.06, 0.05, 0.04])
    assert sut.late == 3


def test_the_schedule_it_goes_by_is_loadgen_s(tmp_path: Path) -> None:
    base: Job = job("Server", batch_size=1)
    settings = replace(base.settings, target_qps=500.0, min_duration_ms=1500)
    listener = Listener()
    result = measure(replace(base, settings=settings), tmp_path / "run", listener)
    heard = [e for e in listener.events if e.phase == "running" and e.latency_ms is not None]
    assert result.valid and heard
    # Of another schedule the latencies would be off by more than the longest, on one side or other.
    longest = read_detail(result.folder / DETAIL)[0]["result_max_latency_ns"] / 1e6
    assert all(-1 < e.latency_ms <= longest + 1 for e in heard if e.latency_ms is not None)


def test_a_deadline_gathers_a_batch(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, backend = Answers(monkeypatch), Backend()
    sut = ServerSut(DIGITS, backend, library, 8, fail, deadline_us=600e6)
    for k in range(8):
        sut.issue([k], [k])
        time.sleep(0.002)
    wait(lambda: sut.done == 8)  # a full batch does not wait for the deadline
    assert [len(batch) for batch in backend.batches] == [8]
    sut.close()
    sut = ServerSut(DIGITS, backend, library, 8, fail, deadline_us=400_000)
    began = time.monotonic()
    sut.issue([20], [5])
    wait(lambda: sut.done == 1)
    assert time.monotonic() - began > 0.35
    sut.close()
    assert len(answers.sizes) == 9


def test_a_coalesced_query_is_cut_into_batches(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, backend = Answers(monkeypatch), Backend()
    sut = ServerSut(DIGITS, backend, library, 4, fail, workers=2)
    sut.issue(list(range(11)), list(range(11)))
    sut.close()
    assert sorted(answers.sizes) == list(range(11))
    assert [len(batch) for batch in backend.batches] == [4, 4, 3]


class Reused(Backend):
    """Gives its outputs in the same memory again and again, as a backend may."""

    def __init__(self) -> None:
        super().__init__()
        self.bound = 0
        self._room = np.empty((30, 10), np.float32)

    def bind(self, feed: Any) -> Any:
        self.bound += 1
        return feed

    def infer(self, feed: Any, indices: Sequence[int]) -> list[NDArray[Any]]:
        (found,) = super().infer(feed, indices)
        self._room[: len(found)] = found
        return [self._room[: len(found)]]


@pytest.mark.parametrize("size", [20, 30])
def test_offline_answers_outlive_the_memory_they_came_in(
    size: int, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, seen = Reused(), dict[int, int]()

    def send(self: Responses, ids: Sequence[int], payload: Any) -> None:
        time.sleep(0.001)  # the next batches are through before this one is read
        seen.update(zip(ids, payload.tolist(), strict=True))

    monkeypatch.setattr(Responses, "send", send)
    sut = OfflineSut(DIGITS, backend, library, size, fail)
    library.load(range(200))
    # Every feed of one, and the batches where they divide the 200 samples.
    assert backend.bound == 200 + (200 // size if size == 20 else 0)
    indices = [k % 200 for k in range(800)]
    sut.issue([1000 + k for k in range(800)], indices)
    sut.close()
    assert seen == {1000 + k: backend.labels[index] for k, index in enumerate(indices)}
    assert sut.done == 800


def test_where_loadgen_is_slow_answers_do_not_pile_up(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first thread goes on when the second has answers.
    backend = Backend(
        lambda: len(backend.batches) < 3 or wait(lambda: "offline-answers" in threads)
    )
    waiting, most = threading.Event(), [0]
    threads = set[str]()

    def send(self: Responses, ids: Sequence[int], payload: Any) -> None:
        threads.add(threading.current_thread().name)
        if threading.current_thread().name == "offline-answers":
            waiting.wait(60)  # what LoadGen never does for so long
        else:
            most[0] = max(most[0], len(sut._waiting))

    monkeypatch.setattr(Responses, "send", send)
    sut = OfflineSut(DIGITS, backend, library, 10, fail)
    sut.issue(list(range(2000)), [k % 200 for k in range(2000)])
    waiting.set()
    sut.close()
    assert most[0] == 16
    assert len(threads) == 2 and sut.done == 2000


def test_only_one_thread_may_use_bound_feeds(library: Library) -> None:
    backend = Reused()
    for sut in (
        PoolSut(DIGITS, backend, library, 20, fail, 2),
        ServerSut(DIGITS, backend, library, 20, fail, workers=2),
    ):
        library.load(range(200))
        sut.close()
    assert backend.bound == 0
    sut = ServerSut(DIGITS, backend, library, 20, fail)
    library.load(range(200))
    sut.close()
    assert backend.bound == 200


def test_the_options_of_onnx_runtime() -> None:
    dataset = Digits()
    feed = dataset.load(range(5))
    expected: Any = None
    for options in (
        {},
        {"io_binding": True, "threads": 1},
        {"spinning": False, "threads": 2},
        {"optimization": "disable", "providers": "cpu"},
    ):
        backend = make_backend("onnxruntime", options)
        backend.load(DIGITS, DIGITS.models["fp32"], dataset)
        (found,) = backend.infer(feed, range(5))
        expected = found if expected is None else expected
        assert np.allclose(found, expected, atol=1e-4)
        assert ("IO binding" in backend.framework) == bool(options.get("io_binding"))
        assert f"graph optimization {options.get('optimization', 'all')}" in backend.framework
        backend.close()
    for name in ("cuda", "tensorrt", "TensorrtExecutionProvider", "nonsense"):
        backend = make_backend("onnxruntime", {"providers": [name, "cpu"]})
        with pytest.raises(BackendError, match="expected"):
            backend.load(DIGITS, DIGITS.models["fp32"], dataset)


@pytest.mark.parametrize(("scenario", "options"), [("Offline", {}), ("Server", {"threads": 1})])
def test_two_workers_under_loadgen(scenario: str, options: Any, tmp_path: Path) -> None:
    base: Job = job(
        scenario,
        "accuracy",
        backend="onnxruntime",
        backend_options={"spinning": False, **options},
        model=str(DIGITS.models["fp32"]),
        workers=2,
        batch_deadline_us=200.0,
    )
    result = measure(base, tmp_path / "run")
    assert result.valid
    score = DIGITS.score(result.folder / "mlperf_log_accuracy.json", Digits())
    assert score.value == pytest.approx(96.6)
    for bad in ({"workers": 0}, {"batch_size": 0}, {"batch_deadline_us": -1.0}):
        with pytest.raises(SettingsError):
            replace(base, **bad)  # type: ignore[arg-type]
