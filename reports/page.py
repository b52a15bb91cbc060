"""What every HTML page of ours is made with: the templates, and the hashes of its own policy."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment() -> Environment:
    """The templates of ``reports/templates``: every value escaped, an unknown name an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """A style sheet or script of ``reports/templates``, as it is put into a page."""
    place = resources.files("reports") / "templates" / name
    return place.read_text(encoding="utf-8").strip()


def policy_hash(text: str) -> str:
    """The hash by which a page's content security policy allows a style or script of its own."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
