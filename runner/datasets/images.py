"""Pictures of a data set: read, scaled as the reference scales them, and kept for the next run.

Scaling is written out here in NumPy, because no two libraries agree on it: the reference takes
OpenCV's area and linear kernels, and Pillow's filters of the same names give other pixels.

What was scaled is kept on disk under the SHA-256 of the picture's own bytes and of every setting,
so that a changed picture, another model or a corrected preprocessing never meets an old file.  The
folder is `$ASSAY_CACHE`, else `$XDG_CACHE_HOME/assay` or `~/.cache/assay`; `ASSAY_CACHE=off` keeps
nothing.  It may be deleted at any time.  ImageNet takes 7.5 GB, COCO 1.4 GB at 300 pixels and 86 GB
at 1200, where fractions count; 4 GiB of the disk are left free, and what does not fit is made again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from runner.errors import DatasetError
from schemas.writing import replace_file

VERSION = 1  # of the scaling below; a change makes every kept file another
SPARE_DISK = 4 * 2**30  # bytes that the cache leaves free
CHECKSUMS = "SHA256SUMS"
REPORT_EVERY_S = 0.5

Layout = Literal["NCHW", "NHWC"]
Scaling = Literal["area-crop", "linear-crop", "pillow-crop", "bicubic-crop", "linear"]
Pixels = NDArray[np.uint8] | NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """From a picture to what a model is fed.

    Attributes:
        scaling: "area-crop" and "linear-crop": the shorter side to `resize`, the longer in
            proportion, then the middle cut out, in whole grey values; "pillow-crop" and
            "bicubic-crop": the same with Pillow's bilinear or bicubic filter; "linear": both sides
            to `side`, in fractions of grey values.
        side: pixels, both ways.
        resize: pixels of the shorter side before the cut; None: side / 0.875.
        order: of the colours in the model's input; `mean` and `scale` are always red, green, blue.
        mean, scale: per colour (red, green, blue): (value - mean) * scale, after scaling.
        whole: cut fractions off after scaling (models that take uint8).
        layout, dtype: as the model has them.
        input_name: what the model calls its input.
    """

    scaling: Scaling
    side: int
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)
    whole: bool = False
    layout: Layout = "NCHW"
    dtype: str = "float32"
    input_name: str = "input"
    resize: int | None = None
    order: Literal["RGB", "BGR"] = "RGB"

    @property
    def before_cut(self) -> int:
        """Pixels of the shorter side before the cut."""
        return self.resize or int(100.0 * self.side / 87.5)

    def text(self) -> str:
        """What is done, in a line."""
        mean, scale = (", ".join(f"{x:.6g}" for x in values) for values in (self.mean, self.scale))
        cut = f" from {self.before_cut} on the shorter side" if self.scaling != "linear" else ""
        return (
            f"{self.scaling} to {self.side} x {self.side} pixels{cut}, (value - mean) * scale with "
            f"mean {mean} and scale {scale} for red, green and blue; {self.layout}, {self.order}, "
            f"{self.dtype}"
        )

    @property
    def kept(self) -> type[np.uint8] | type[np.float32]:
        """What a scaled picture is stored as, before mean and scale."""
        return np.float32 if self.scaling == "linear" and not self.whole else np.uint8

    def settings(self) -> str:
        """Whatever decides the pixels that are kept; mean, scale and layout come later."""
        text = f"{VERSION} {self.scaling} {self.side} {self.kept.__name__}"
        return text if self.resize is None else f"{text} {self.resize}"

    def scaled(self, picture: NDArray[np.uint8]) -> Pixels:
        """(height, width, 3) to (side, side, 3)."""
        if self.scaling == "linear":
            pixels = scale_linear(picture, self.side, self.side)
            return pixels.astype(np.uint8) if self.whole else pixels
        height, width = sides_before_crop(picture.shape[0], picture.shape[1], self.before_cut)
        kernels = {
            "area-crop": scale_area,
            "linear-crop": scale_linear_whole,
            "bicubic-crop": scale_bicubic,
        }
        kernel = kernels.get(self.scaling, scale_pillow)
        top, left = int((height - self.side) / 2), int((width - self.side) / 2)
        return kernel(picture, height, width)[top : top + self.side, left : left + self.side]

    def finished(self, pixels: Pixels, out: NDArray[Any]) -> None:
        """Scaled pixels to a row of the model's input."""
        plain = self.mean == (0.0, 0.0, 0.0) and self.scale == (1.0, 1.0, 1.0)
        if not plain:
            mean, scale = np.array(self.mean, np.float32), np.array(self.scale, np.float32)
            pixels = (pixels.astype(np.float32) - mean) * scale
        if self.order == "BGR":
            pixels = pixels[:, :, ::-1]
        out[...] = pixels.transpose(2, 0, 1) if self.layout == "NCHW" else pixels

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one sample."""
        side = self.side
        return (3, side, side) if self.layout == "NCHW" else (side, side, 3)


def sides_before_crop(height: int, width: int, short: int) -> tuple[int, int]:
    """Height and width of which the shorter is `short`, in proportion."""
    if height > width:
        return int(short * height / width), short
    return short, int(short * width / height)


def _linear_places(
    source: int, target: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """For each new pixel the two old ones it lies between, and the share of the second."""
    at = ((np.arange(target) + 0.5) * (source / target) - 0.5).astype(np.float32)
    left = np.floor(at).astype(np.int64)
    share: NDArray[np.float32] = at - left.astype(np.float32)
    outside = (left < 0) | (left >= source - 1)
    share[outside] = 0
    left = np.clip(left, 0, source - 1)
    return left, np.minimum(left + 1, source - 1), share


def scale_linear(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.float32]:
    """Linear scaling in float32, without smoothing where it shrinks."""
    left, right, share = _linear_places(picture.shape[1], width)
    top, bottom, low = _linear_places(picture.shape[0], height)
    pixels = picture.astype(np.float32)
    second, lower = share[:, None], low[:, None, None]
    across = pixels[:, left] * (1 - second) + pixels[:, right] * second
    return (across[top] * (1 - lower) + across[bottom] * lower).astype(np.float32, copy=False)


def scale_linear_whole(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Linear scaling in whole numbers: weights of 11 bits, as OpenCV takes for 8-bit pixels."""
    if picture.shape[:2] == (height, width):
        return picture
    left, right, share = _linear_places(picture.shape[1], width)
    top, bottom, low = _linear_places(picture.shape[0], height)
    return _weighted(picture, (left, right, share), (top, bottom, low))


def _weighted(
    picture: NDArray[np.uint8],
    across: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]],
    down: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]],
) -> NDArray[np.uint8]:
    left, right, share = across
    top, bottom, low = down
    first, second = (np.rint(w * 2048).astype(np.int32)[:, None] for w in (1 - share, share))
    upper, lower = (np.rint(w * 2048).astype(np.int32)[:, None, None] for w in (1 - low, low))
    pixels = picture.astype(np.int32)
    rows = (pixels[:, left] * first + pixels[:, right] * second) >> 4
    both = ((rows[top] * upper) >> 16) + ((rows[bottom] * lower) >> 16)
    result: NDArray[np.uint8] = np.clip((both + 2) >> 2, 0, 255).astype(np.uint8)
    return result


def scale_area(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Each new pixel is the mean of the area it covers; where a side grows, between two old ones.

    A half is rounded to the even number; where both sides are halved, up: so does OpenCV.
    """
    old_height, old_width = picture.shape[:2]
    if (old_height, old_width) == (height, width):
        return picture
    if height > old_height or width > old_width:
        return _weighted(
            picture, _growing_places(old_width, width), _growing_places(old_height, height)
        )
    rows = _area_weights(old_height, height) @ picture.reshape(old_height, -1).astype(np.float32)
    columns = rows.reshape(height, old_width, 3).transpose(1, 0, 2).reshape(old_width, -1)
    both = (_area_weights(old_width, width) @ columns).reshape(width, height, 3)
    halved = (old_height, old_width) == (2 * height, 2 * width)
    rounded = np.floor(both + np.float32(0.5)) if halved else np.rint(both)
    result: NDArray[np.uint8] = np.clip(rounded.transpose(1, 0, 2), 0, 255).astype(np.uint8)
    return result


def _growing_places(
    source: int, target: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """As `_linear_places`, where a new pixel is smaller than an old one and mostly inside it."""
    step = source / target
    new = np.arange(target)
    left = np.floor(new * step).astype(np.int64)
    share = ((new + 1) - (left + 1) / step).astype(np.float32)
    share = np.where(share <= 0, np.float32(0), share - np.floor(share)).astype(np.float32)
    share[left >= source - 1] = 0
    left = np.clip(left, 0, source - 1)
    return left, np.minimum(left + 1, source - 1), share


def _area_weights(source: int, target: int) -> NDArray[np.float32]:
    """(target, source): how much of each old pixel lies under each new one; rows add up to 1."""
    edges = np.arange(target + 1) * (source / target)
    old = np.arange(source)
    shared = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    weights = np.clip(shared, 0, None)
    result: NDArray[np.float32] = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return result


def scale_pillow(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Pillow's bilinear filter, which smooths where it shrinks."""
    from PIL import Image

    image = Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image)


def scale_bicubic(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Pillow's bicubic filter."""
    from PIL import Image

    image = Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(image)


def decode(content: bytes, path: Path) -> NDArray[np.uint8]:
    """A picture's file to (height, width, 3), red first, upright.

    Raises:
        DatasetError: Pillow is absent, or the file is not a picture.
    """
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DatasetError(
            f"{path}: reading pictures needs Pillow ({error}); install it with: pip install pillow"
        ) from error
    try:
        with Image.open(BytesIO(content)) as image:
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DatasetError(
            f"{path}: found {len(content)} bytes that are not a picture Pillow can read; "
            "copy the file again from the data set."
        ) from error


class Cache:
    """Scaled pictures on disk: a file each, its pixels behind their SHA-256.

    Nothing here ever ends a run: a folder that cannot be written or a full disk only means that
    the work is done again.

    Args:
        folder: None finds it as the module says.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder()

    def key(self, content: bytes, recipe: Recipe) -> str:
        """Of a picture's own bytes and all settings."""
        return hashlib.sha256(
            recipe.settings().encode() + b"\0" + hashlib.sha256(content).digest()
        ).hexdigest()

    def read(self, key: str, recipe: Recipe) -> Pixels | None:
        """The pixels, or None where there are none or they are damaged."""
        if self._folder is None:
            return None
        try:
            stored = self._path(key).read_bytes()
        except OSError:
            return None
        digest, pixels = stored[:32], stored[32:]
        if hashlib.sha256(pixels).digest() != digest:
            return None
        side = recipe.side
        array: Any = np.frombuffer(pixels, recipe.kept)
        return array.reshape(side, side, 3) if array.size == side * side * 3 else None

    def write(self, key: str, pixels: Pixels) -> None:
        if self._folder is None:
            return
        content = np.ascontiguousarray(pixels).tobytes()
        path = self._path(key)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(path.parent).free < SPARE_DISK + len(content):
                return
            replace_file(path, hashlib.sha256(content).digest() + content, synced=False)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / "pictures" / key[:2] / key[2:]


def cache_folder() -> Path | None:
    """Where to keep scaled pictures; None: nowhere."""
    asked = os.environ.get("ASSAY_CACHE", "")
    if asked.lower() in ("off", "0", "no", "none"):
        return None
    if asked:
        return Path(asked)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "assay"


class Pictures:
    """Loads pictures in parallel: the part that ImageNet and COCO have in common.

    Args:
        paths: the pictures in the order of the data set.
        recipe: what is made of them.
        source: where the data set comes from, for messages.
        checksums: folder that may hold `SHA256SUMS`; what it lists is compared.
        cache: None: the default one.

    Attributes:
        on_progress: called now and then with a sentence on how far loading is; from the thread
            that called `load`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        recipe: Recipe,
        source: str,
        checksums: Path | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.paths = paths
        self.recipe = recipe
        self._source = source
        self._cache = cache or Cache()
        self._sums = read_checksums(checksums) if checksums else {}
        self._threads = min(8, os.cpu_count() or 1)
        self._lock = threading.Lock()
        self._done = 0
        self.on_progress: Callable[[str], None] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def require(self, indices: Iterable[int]) -> None:
        """Raises DatasetError that names the first picture that is not there."""
        for index in indices:
            if not self.paths[index].is_file():
                raise DatasetError(self._missing(self.paths[index]))

    def _missing(self, path: Path) -> str:
        return f"{path}: found no such picture. {self._source}"

    def pixels(self, index: int) -> Pixels:
        """One scaled picture, from the cache or its file.

        Raises:
            DatasetError: absent, damaged, or not the one in `SHA256SUMS`.
        """
        path = self.paths[index]
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise DatasetError(self._missing(path)) from error
        except OSError as error:
            raise DatasetError(f"{path}: cannot be read ({error}).") from error
        expected = self._sums.get(path)
        if expected and hashlib.sha256(content).hexdigest() != expected:
            raise DatasetError(
                f"{path}: found another file than {CHECKSUMS} lists (SHA-256 "
                f"{hashlib.sha256(content).hexdigest()}; expected {expected}); copy it again "
                "from the data set."
            )
        key = self._cache.key(content, self.recipe)
        kept = self._cache.read(key, self.recipe)
        if kept is None:
            kept = self.recipe.scaled(decode(content, path))
            self._cache.write(key, kept)
        return kept

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[Any]]:
        """What the model is fed, one row a picture, in the order of `indices`.

        Raises:
            DatasetError: see `pixels`; the first picture in order decides.
        """
        rows = np.empty((len(indices), *self.recipe.shape), self.recipe.dtype)
        self._done = 0

        def work(place: int) -> None:
            self.recipe.finished(self.pixels(indices[place]), rows[place])
            with self._lock:
                self._done += 1

        if len(indices) < 3 or self._threads == 1:
            for place in range(len(indices)):
                work(place)
                self._report(len(indices), 0.0 if place else time.monotonic())
            return {self.recipe.input_name: rows}
        with ThreadPoolExecutor(self._threads, "pictures") as pool:
            pending = [pool.submit(work, place) for place in range(len(indices))]
            began = time.monotonic()
            try:
                for future in pending:
                    future.result()
                    began = self._report(len(indices), began)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return {self.recipe.input_name: rows}

    def _report(self, total: int, last: float) -> float:
        """Tell how far it is, if it is time; returns when that was last told."""
        now = time.monotonic()
        if self.on_progress is None or now - last < REPORT_EVERY_S:
            return last
        self.on_progress(f"{self._done:,} of {total:,} pictures")
        return now

    def unload(self, indices: Sequence[int]) -> None:
        """Nothing to release: the arrays belong to whoever called `load`."""


def read_checksums(folder: Path) -> Mapping[Path, str]:
    """The SHA-256 of files by path, from a `SHA256SUMS` in the folder (as sha256sum writes it).

    Raises:
        DatasetError: a line is of another form.
    """
    path = folder / CHECKSUMS
    if not path.is_file():
        return {}
    sums = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        digest, _, name = line.strip().partition(" ")
        if not line.strip():
            continue
        if len(digest) != 64 or not name.strip(" *"):
            raise DatasetError(f"{path}:{number}: found {line[:80]!r}; expected 'SHA-256  file'.")
        sums[folder / name.strip(" *")] = digest.lower()
    return sums
