"""The units of a check on a Dask cluster, through its concurrent.futures interface.

A worker that dies is Dask's to replace: the scheduler gives its units to others, a few times.
A unit that takes every worker along comes back as BrokenExecutor, as from a local pool, and the
engine tries its results one by one. Nothing waits for ever: where the scheduler or the last
worker stays away, what is outstanding fails as ClusterLost and becomes findings.
"""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schemas.machine import MachineFault

CONNECT_S = 10.0
PATIENCE_S = 60.0
_POLL_S = 0.5
_PACKAGES = ("checker", "schemas")
_SUFFIXES = {".py", ".toml", ".json"}


class ClusterError(MachineFault):
    """The cluster cannot be used as asked; the message says what to do."""


class ClusterLost(RuntimeError):
    """A unit was not done because the cluster went away or its worker cannot do it."""

    fix = "see that the cluster's workers run, see the tree and have this assay; then check again"


@contextmanager
def dask_executor(
    address: str,
    roots: Sequence[Path],
    *,
    connect_s: float = CONNECT_S,
    patience_s: float = PATIENCE_S,
) -> Iterator[DaskExecutor]:
    """An executor on the cluster of this scheduler, whose workers were seen to fit.

    Args:
        roots: what will be checked, and other paths that every worker must see.
        connect_s: how long to wait for the scheduler, and for a first worker.
        patience_s: how long the cluster may be without its scheduler or any worker.

    Raises:
        ClusterError: distributed is not installed; no scheduler or no worker answers; a worker
            does not see the roots or has another assay.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ClusterError(
            f'--executor dask needs the package distributed ({error}): pip install "assay[distributed]"'
        ) from error
    connect: Any = Client
    try:
        client = connect(address, timeout=connect_s, set_as_default=False, name="assay")
    except (OSError, ValueError, TimeoutError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address} within {connect_s:g} s "
            f"({_first_line(error)}): start one with `dask scheduler`, give its address as "
            "tcp://host:8786"
        ) from error
    try:
        threads = _inspect(client, address, roots, connect_s)
        executor = DaskExecutor(client, threads, [str(r) for r in roots], patience_s)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
    finally:
        client.close(timeout=connect_s)


def _inspect(client: Any, address: str, roots: Sequence[Path], connect_s: float) -> int:
    """See that workers are there and fit; how many units they can do at a time."""
    try:
        client.wait_for_workers(1, timeout=connect_s)
    except TimeoutError as error:
        raise ClusterError(
            f"the Dask scheduler at {address} has no workers after {connect_s:g} s: start some "
            f"with `dask worker {address}`"
        ) from error
    own = fingerprint()
    names = [str(root) for root in roots]
    answers: dict[str, Any] = client.run(_unfit, own, names, on_error="return")
    for worker, answer in sorted(answers.items()):
        if "No module named" in str(answer):
            answer = f"it has no assay ({answer}); install the version that is here"
        if answer is not None:
            raise ClusterError(f"the worker {worker} cannot check: {answer}")
    return sum(client.nthreads().values())


@functools.cache
def fingerprint() -> str:
    """What decides a verdict: the code of the checker and the data of the rounds."""
    digest = hashlib.sha256()
    top = Path(__file__).resolve().parent.parent
    for package in _PACKAGES:
        for path in sorted((top / package).rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file():
                digest.update(path.relative_to(top).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _unfit(wanted: str, roots: Sequence[str]) -> str | None:
    """Asked of a worker: why it cannot do a unit; None if it can."""
    if fingerprint() != wanted:
        return "it has another version of assay; install the same one on every worker"
    absent = [root for root in roots if not Path(root).exists()]
    if absent:
        return f"it does not see {absent[0]}; the tree must lie at the same path for every worker"
    return None


def _guarded(
    wanted: str, roots: Sequence[str], work: Callable[..., Any], args: tuple[Any, ...]
) -> Any:
    """A unit on a worker, which may have come after the others were asked."""
    reason = _unfit(wanted, roots)
    if reason is not None:
        raise ClusterLost(f"a worker of the cluster could not do it: {reason}")
    return work(*args)


class DaskExecutor(Executor):
    """Dask's own executor; what it fails with is distinguished, and nothing waits for ever.

    Attributes:
        threads: units that the cluster could do at a time when it was asked.
    """

    def __init__(self, client: Any, threads: int, roots: Sequence[str], patience_s: float) -> None:
        self.threads = threads
        self._client = client
        self._inner = client.get_executor(pure=False)
        self._roots = list(roots)
        self._patience = patience_s
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()
        self._ended = threading.Event()
        self._lost: ClusterLost | None = None
        threading.Thread(target=self._watch, name="cluster-watch", daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Send one unit."""
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()
        with self._lock:
            lost = self._lost
            if lost is None:
                self._open.add(outer)
        if lost is not None:
            outer.set_exception(lost)
            return outer
        work = functools.partial(fn, **kwargs) if kwargs else fn
        inner = self._inner.submit(_guarded, fingerprint(), self._roots, work, args)
        inner.add_done_callback(functools.partial(self._pass_on, outer))
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop watching; what is outstanding is cancelled on the cluster."""
        self._ended.set()
        self._inner.shutdown(wait=wait)

    def _pass_on(self, outer: Future[Any], inner: Future[Any]) -> None:
        from distributed import KilledWorker

        with self._lock:
            if outer not in self._open:
                return  # given up meanwhile
            self._open.remove(outer)
        if inner.cancelled():
            outer.set_exception(ClusterLost("the cluster dropped it: its scheduler went away"))
            return
        error = inner.exception()
        if isinstance(error, KilledWorker):
            outer.set_exception(BrokenExecutor("every worker that tried it died"))
        elif error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())

    def _watch(self) -> None:
        since = time.monotonic()
        while not self._ended.wait(_POLL_S):
            if self._client.status == "running" and self._workers():
                since = time.monotonic()
            elif time.monotonic() - since > self._patience:
                self._give_up(
                    ClusterLost(f"the cluster had no worker for {self._patience:g} s; not judged")
                )
                return

    def _workers(self) -> bool:
        return bool(self._client.scheduler_info().get("workers"))

    def _give_up(self, error: ClusterLost) -> None:
        with self._lock:
            self._lost = error
            left, self._open = self._open, set()
        for outer in left:
            outer.set_exception(error)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]
