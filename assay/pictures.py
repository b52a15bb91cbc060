"""Pictures as files: SVG without any library, PNG and PDF by Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.status import Usage

if TYPE_CHECKING:
    from reports.charts import Chart

_BY_MATPLOTLIB = ("png", "pdf")
KINDS = ("svg", *_BY_MATPLOTLIB)


def kind_of(path: Path, option: str, *others: str) -> str:
    """The kind of picture that a suffix means, where it can be made here.

    Args:
        others: kinds of files that the option takes too, for the message.

    Raises:
        Usage: another suffix, or Matplotlib is not installed.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        known = ", ".join(f".{name}" for name in (*KINDS, *others))
        raise Usage(
            f"{option} {path}: found suffix {path.suffix or 'none'}; expected one of {known}"
        )
    if kind in _BY_MATPLOTLIB:
        from importlib.util import find_spec

        from reports.charts import missing

        if find_spec("matplotlib") is None:
            raise Usage(missing(kind))
    return kind


def drawn(charts: Sequence[Chart], kind: str) -> str | bytes:
    """Charts below one another as a picture of this kind."""
    from reports.charts import to_image, to_svg

    if not charts:
        raise Usage("found nothing to draw")
    return to_svg(charts, alone=True) + "\n" if kind == "svg" else to_image(charts, kind)
