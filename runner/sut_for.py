"""Which SUT answers a scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runner.backends.base import Backend
from runner.benchmarks.base import Benchmark
from runner.qsl import Library
from runner.streaming import make_streamed
from runner.sut import Fail, OfflineSut, PoolSut, ServerSut, Sut, UnbatchedServerSut


def make_sut(
    scenario: str,
    benchmark: Benchmark,
    backend: Backend,
    library: Library,
    batch_size: int,
    fail: Fail,
    *,
    workers: int = 1,
    deadline_us: float = 0.0,
    limit_s: float = float("inf"),
    due: Callable[[], Sequence[float]] = tuple,
) -> Sut:
    """The SUT that suits the scenario; `workers` and the rest count where it can use them."""
    streamed = make_streamed(
        scenario,
        benchmark,
        backend,
        library,
        batch_size,
        fail,
        workers=workers,
        deadline_us=deadline_us,
        limit_s=limit_s,
    )
    if streamed is not None:
        return streamed
    parts = (benchmark, backend, library, batch_size, fail)
    if scenario == "Server" and batch_size == workers == 1:
        # LoadGen's thread is late then, as a queue would be, and no other thread is waited for.
        return UnbatchedServerSut(
            benchmark=benchmark,
            backend=backend,
            library=library,
            fail=fail,
            due=due(),
            limit_s=limit_s,
        )
    if scenario == "Server":
        return ServerSut(*parts, workers=workers, deadline_us=deadline_us, limit_s=limit_s)
    if scenario == "Offline":
        return PoolSut(*parts, workers=workers) if workers > 1 else OfflineSut(*parts)
    return Sut(*parts)
