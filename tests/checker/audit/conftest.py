"""One submission with real LoadGen logs for the session, and fresh copies of it."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from schemas.report import Report
from tests.checker.audit.real import shared_tree
from tests.trees import GoodTree

Real = Callable[[], GoodTree]


@pytest.fixture(scope="session")
def master() -> GoodTree:
    return shared_tree()


@pytest.fixture(scope="session")
def untouched(master: GoodTree) -> Report:
    """What an audit says of the untouched tree."""
    return master.check(audit=True)


@pytest.fixture
def real(master: GoodTree, tmp_path: Path) -> Real:
    def make() -> GoodTree:
        tree = copy.copy(master)
        tree.root = tmp_path / "submission"
        shutil.copytree(master.root, tree.root)
        return tree

    return make
