"""Mean Dice of segmented volumes (3D-UNet on KiTS 2019).

A record is the raw volume of class numbers, in C order. The score of a case is the mean over
its regions (kidney, tumor) of (2 |A and B| + 1e-6) / (|A| + |B| + 1e-6); the result is the mean
over cases. One volume is held at a time.

Source: the official KiTS19 scorer (v2.0 on).
"""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt

from checker.accuracy.log import Progress, read_samples
from checker.accuracy.problem import AccuracyError, Problems
from checker.accuracy.score import LogScore

Volume = npt.NDArray[Any]
Regions = Mapping[str, frozenset[int]]

KITS19: Final[Regions] = {"kidney": frozenset({1}), "tumor": frozenset({2})}
SMOOTH: Final = 1e-6
MAX_VOXELS: Final = 1 << 28

_NIFTI = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4"}
_WIDTHS = {1: "u1", 2: "<i2", 4: "<i4", 8: "<i8"}


@dataclass(frozen=True, slots=True)
class DiceScore(LogScore):
    """Mean Dice (0 to 1) over cases and regions, and the mean of each region."""

    mean: float
    regions: dict[str, float]
    cases: int
    dtype: str

    @property
    def count(self) -> int | None:
        return self.cases

    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""
        parts = "".join(f", {name} = {value:.4f}" for name, value in self.regions.items())
        return f"Accuracy: mean = {self.mean:.5f}{parts}"


def dice(prediction: Volume, truth: Volume, regions: Regions = KITS19) -> dict[str, float]:
    """Dice (0 to 1) of each region of two volumes of class numbers, of equal shape."""
    scores = {}
    for name, classes in regions.items():
        mine = np.isin(prediction, list(classes))
        theirs = np.isin(truth, list(classes))
        both = np.count_nonzero(mine & theirs)
        size = np.count_nonzero(mine) + np.count_nonzero(theirs)
        scores[name] = float((2.0 * both + SMOOTH) / (size + SMOOTH))
    return scores


def score_log(
    source: str | Path | BinaryIO,
    cases: Sequence[Callable[[], Volume]],
    *,
    regions: Regions = KITS19,
    sha256: bool = False,
    progress: Progress | None = None,
) -> DiceScore:
    """Mean Dice of an accuracy log; ``cases[qsl_idx]()`` loads the true volume.

    The width of a class number (1, 2, 4 or 8 bytes; 4 also as float32) follows from the record's
    length and the true shape. A record of another length scores 0 and is a problem. Raises
    ``AccuracyError`` when the log is not a file or a true volume cannot be read.
    """
    samples = read_samples(source, expected=len(cases), progress=progress, sha256=sha256)
    problems = Problems()
    sums = dict.fromkeys(regions, 0.0)
    count = 0
    dtypes: dict[str, None] = {}
    for record in samples:
        truth = cases[record.qsl_idx]()
        count += 1
        width, rest = divmod(len(record.data), max(truth.size, 1))
        if rest or width not in _WIDTHS:
            problems.add(
                "volume-size",
                f"{len(record.data)} bytes do not fit a volume of {truth.size} voxels; it scores 0",
                index=record.qsl_idx,
            )
            continue
        volume = np.frombuffer(record.data, _WIDTHS[width])
        if width == 4 and volume.size and int(volume.max()) > 255:
            volume = np.frombuffer(record.data, "<f4")
        dtypes[volume.dtype.name] = None
        for name, value in dice(volume.reshape(truth.shape), truth, regions).items():
            sums[name] += value
    means = {name: value / count if count else 0.0 for name, value in sums.items()}
    return DiceScore(
        sum(means.values()) / max(len(means), 1),
        means,
        count,
        " and ".join(dtypes) or "unknown",
    ).read_from(samples, problems)


def read_volume(path: Path) -> Volume:
    """Read a volume of class numbers: ``.npy``, ``.nii`` or ``.nii.gz`` (NIfTI-1).

    Raises ``AccuracyError`` for anything else, and for more than 2^28 voxels.
    """
    try:
        if path.suffix == ".npy":
            loaded = np.load(path, mmap_mode="r", allow_pickle=False)
            if loaded.size > MAX_VOXELS:
                raise ValueError(f"{loaded.size} voxels")
            return np.asarray(loaded)
        opener: Any = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as stream:
            return _nifti(stream)
    except (OSError, ValueError, EOFError, struct.error, KeyError) as error:
        raise AccuracyError(f"{path}: no readable volume ({error})") from error


def _nifti(stream: BinaryIO) -> Volume:
    head = stream.read(352)
    order: Literal["<", ">"] = "<" if struct.unpack_from("<i", head)[0] == 348 else ">"
    if struct.unpack_from(order + "i", head)[0] != 348:
        raise ValueError("no NIfTI-1 header")
    dims = struct.unpack_from(order + "8h", head, 40)
    shape = tuple(dims[1 : 1 + max(1, min(dims[0], 7))])
    voxels = math.prod(shape)
    if min(shape) < 1 or voxels > MAX_VOXELS:
        raise ValueError(f"shape {shape}")
    kind = np.dtype(_NIFTI[struct.unpack_from(order + "h", head, 70)[0]]).newbyteorder(order)
    offset, slope, intercept = struct.unpack_from(order + "3f", head, 108)
    if not 352 <= offset <= 1 << 20:
        raise ValueError(f"data begin at byte {offset}")
    stream.read(int(offset) - 352)
    raw = stream.read(voxels * kind.itemsize)
    if len(raw) < voxels * kind.itemsize:
        raise ValueError("it ends early")
    values = np.frombuffer(raw, kind).reshape(shape, order="F")
    if slope not in (0.0, 1.0) or intercept:
        values = values * slope + intercept
    return np.rint(values).astype(np.uint8)


def read_cases(folder: str | Path) -> list[Callable[[], Volume]]:
    """The true volumes of a folder in the order of qsl_idx, each read when called.

    The order is that of ``cases.txt`` (one name a line) when there is one, else of the names.
    A case is ``NAME.npy``, ``NAME.nii.gz`` or ``NAME/segmentation.nii.gz``. Raises
    ``AccuracyError`` when there is none, or one that is listed is missing.
    """
    root = Path(folder)
    known: dict[str, Path] = {}
    for path in sorted(root.glob("*")) if root.is_dir() else []:
        inner = path / "segmentation.nii.gz"
        if path.is_dir() and inner.is_file():
            known[path.name] = inner
        elif path.name.endswith((".npy", ".nii", ".nii.gz")):
            known[path.name.split(".")[0]] = path
    listing = root / "cases.txt"
    names = listing.read_text(encoding="utf-8").split() if listing.is_file() else list(known)
    if not names:
        raise AccuracyError(
            f"{folder}: no cases (NAME.npy, NAME.nii.gz or NAME/segmentation.nii.gz)"
        )
    lacking = [name for name in names if name not in known]
    if lacking:
        raise AccuracyError(f"{folder}: no volume for {', '.join(lacking[:5])}")
    return [_reader(known[name]) for name in names]


def _reader(path: Path) -> Callable[[], Volume]:
    return lambda: read_volume(path)
