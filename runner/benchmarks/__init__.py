"""Benchmarks by name; only the one asked for is imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from runner.errors import SettingsError

if TYPE_CHECKING:
    from runner.benchmarks.base import Benchmark

BENCHMARKS = {
    "digits": "runner.benchmarks.digits:DIGITS",
}


def benchmark_names() -> tuple[str, ...]:
    """The benchmarks this package can measure, in the order of the registry."""
    return tuple(BENCHMARKS)


def get_benchmark(name: str) -> Benchmark:
    """A benchmark of the registry, or one of your own as `module:NAME`.

    Raises:
        SettingsError: there is none of that name.
    """
    module, _, attribute = BENCHMARKS.get(name, name).partition(":")
    if not attribute:
        raise SettingsError(
            f"found benchmark {name!r}; asked for one of {', '.join(BENCHMARKS)}, or "
            "'module:NAME' for one of your own."
        )
    try:
        return cast("Benchmark", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"benchmark {name!r} cannot be imported: {error}") from error
