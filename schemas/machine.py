"""What fails because of the machine, not because of the submission.

A full disk or a process without free file descriptors says nothing about a submission: it must
become neither a finding nor a pass. Whoever meets one raises `MachineFault`; commands end with exit
status 2.
"""

from __future__ import annotations

import errno

EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Too little of what a process needs in order to run: descriptors, memory, processes."""

STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG})
"""What writing a file of our own can fail with."""


class MachineFault(Exception):
    """The machine could not do its part; the message says what failed and what helps."""


def exhausted(error: BaseException) -> bool:
    """Whether an error says that this process or machine has run out of something."""
    return isinstance(error, MemoryError) or (
        isinstance(error, OSError) and error.errno in EXHAUSTED
    )


def storage(error: BaseException) -> bool:
    """Whether an error says that a file could not be written, whatever its content."""
    return isinstance(error, OSError) and error.errno in STORAGE | EXHAUSTED
