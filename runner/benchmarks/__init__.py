"""Benchmarks by name; only the one asked for is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.errors import SettingsError
from runner.named import is_place, load

if TYPE_CHECKING:
    from pathlib import Path

    from runner.benchmarks.base import Benchmark

BENCHMARKS = {
    # These travel with the package, model and data.
    "digits": "runner.benchmarks.digits:DIGITS",
    "scenes": "runner.benchmarks.scenes:SCENES",
    "phrasebook": "runner.benchmarks.phrasebook:PHRASEBOOK",
    "stories": "runner.benchmarks.stories:STORIES",
    # These need a model and a data set that you have.
    "resnet50": "runner.benchmarks.resnet50:RESNET50",
    "mobilenet": "runner.benchmarks.mobilenet:MOBILENET",
    "ssd-mobilenet": "runner.benchmarks.ssd_mobilenet:SSD_MOBILENET",
    "ssd-resnet34": "runner.benchmarks.ssd_resnet34:SSD_RESNET34",
    "retinanet": "runner.benchmarks.retinanet:RETINANET",
    "gnmt": "runner.benchmarks.gnmt:GNMT",
    # These need a server and a data set that you have.
    "llama2-70b-99": "runner.benchmarks.llama:LLAMA2_70B_99",
    "llama2-70b-99.9": "runner.benchmarks.llama:LLAMA2_70B_99_9",
    "llama3.1-8b": "runner.benchmarks.llama:LLAMA3_1_8B",
    "llama3.1-8b-edge": "runner.benchmarks.llama:LLAMA3_1_8B_EDGE",
    "deepseek-r1": "runner.benchmarks.reasoning:DEEPSEEK_R1",
    "gpt-oss-120b": "runner.benchmarks.reasoning:GPT_OSS_120B",
}
EMBEDDED = ("digits", "scenes", "phrasebook", "stories")

# Other names by which people know them; results lie under the names above.
ALIASES = {
    "resnet50-v1.5": "resnet50",
    "mobilenet-v1": "mobilenet",
    "ssd-mobilenet-v1": "ssd-mobilenet",
    "ssd-small": "ssd-mobilenet",
    "ssd-large": "ssd-resnet34",
}


def benchmark_names() -> tuple[str, ...]:
    """The benchmarks this package can measure, in the order of the registry."""
    return tuple(BENCHMARKS)


def get_benchmark(name: str) -> Benchmark:
    """A benchmark of the registry, or one of your own (see `runner.named`).

    Raises:
        SettingsError: there is none of that name.
    """
    name = ALIASES.get(name, name)
    place = BENCHMARKS.get(name, name)
    if not is_place(place):
        raise SettingsError(
            f"found benchmark {name!r}; expected one of {', '.join(BENCHMARKS)}, or one of your own "
            "as module:NAME or folder/file.py:NAME."
        )
    from runner.benchmarks.base import Benchmark

    try:
        return Benchmark.of(load(place))
    except TypeError as error:
        raise SettingsError(f"benchmark {name!r}: {error} (docs/own-backends.md).") from error
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"benchmark {name!r} cannot be imported ({error}); a module in the current folder is "
            "found when its file is named: folder/file.py:NAME."
        ) from error


def open_benchmark(name: str, model: Path | None = None, data: Path | None = None) -> Benchmark:
    """As `get_benchmark`, fitted to a model: what its graph calls things and how it lays them out.

    Args:
        model: the model file or folder; None (dummy backend): the benchmark's own form.
        data: the data set's folder or file, None for the default.

    Raises:
        SettingsError: there is none of that name, or the model's form cannot be told.
        BackendError: the model cannot be read.
        DatasetError: something that the encoding needs is absent (a vocabulary).
    """
    benchmark = get_benchmark(name)
    return benchmark if benchmark.fit is None else benchmark.fit(benchmark, model, data)
