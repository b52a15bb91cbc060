"""One run at a time into one tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.errors import OutputError
from schemas import locking


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold `<out>.lock` beside the tree; the kernel releases it however this process ends.

    Raises:
        OutputError: another run holds it, or the file cannot be made.
    """
    path = out.with_name(out.name + ".lock")
    holding = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locking.locked(path):
            holding = True
            yield
    except locking.Held as held:
        raise OutputError(
            f"{path}: another run writes to this tree ({held}); wait for it, or give another --out."
        ) from None
    except OSError as error:
        if holding:
            raise
        raise OutputError(
            f"{out}: cannot be written ({error.strerror or error}); choose a folder whose parent is "
            "writable."
        ) from error
