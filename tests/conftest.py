"""What every test may ask for: fresh copies of good submissions."""

from __future__ import annotations

import copy
import functools
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import tests.corpus  # noqa: F401  (reads the user's cache folder before it is replaced)
from tests.trees import GoodTree, good_tree

_COMMON = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# The same examples each time: a run says what the last one said of the same code.
settings.register_profile("assay", _COMMON, derandomize=True)
settings.register_profile("nightly", _COMMON, max_examples=10_000)
settings.load_profile("assay")

Grow = Callable[..., GoodTree]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the caches of the user who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _signals_reach_processes() -> None:
    """What a job in the background (INT) or under nohup (HUP) ignores, its processes would ignore."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session")
def _masters() -> Iterator[Callable[..., GoodTree]]:
    with tempfile.TemporaryDirectory(prefix="assay-trees-") as top:
        count = iter(range(10**6))

        @functools.cache
        def build(items: tuple[tuple[str, Any], ...]) -> GoodTree:
            options = {k: list(v) if isinstance(v, tuple) else v for k, v in items}
            return good_tree(Path(top) / str(next(count)), **options)

        yield build


@pytest.fixture
def grow(_masters: Callable[..., GoodTree], tmp_path: Path) -> Iterator[Grow]:
    """``grow(round=…, benchmark=…, …)``: a good tree (see `tests.trees.good_tree`) to break.

    Each kind is built once and copied; the copy is removed after the test.
    """
    made = []

    def make(**options: Any) -> GoodTree:
        items = tuple(
            sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in options.items())
        )
        master = _masters(items)
        tree = copy.copy(master)
        tree.root = tmp_path / f"tree{len(made)}" / "submission"
        shutil.copytree(master.root, tree.root, symlinks=True)
        made.append(tree.root)
        return tree

    yield make
    for root in made:
        shutil.rmtree(root, ignore_errors=True)
