"""The UCI handwritten digits: 500 held-out 8×8 images that travel with the package.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine
Learning Repository (CC BY 4.0), as distributed in `sklearn.datasets.load_digits`.  The file
`data/digits.npz` is written by `tools/train/digits.py`: the last 500 of the 1797
images are the test set.  The source is not shuffled and neighbours look alike, so a contiguous
test part is harder than a random one, which is what makes the task worth a gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runner.errors import DatasetError

DATA = Path(__file__).parent / "data" / "digits.npz"
SIDE = 28  # pixels of the model's input; 8×8 images are scaled up to it
INPUT = "image"


def _interpolation(source: int, target: int) -> NDArray[np.float32]:
    """Bilinear weights, (target, source), pixel centres aligned, edges repeated."""
    weights = np.zeros((target, source), np.float32)
    centres = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
    left = np.minimum(centres.astype(np.int64), source - 2)
    share = (centres - left).astype(np.float32)
    rows = np.arange(target)
    weights[rows, left] = 1 - share
    weights[rows, left + 1] = share
    return weights


def preprocess(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Scale images up for the model.

    Args:
        images: (n, 8, 8), grey values 0..16.

    Returns:
        (n, 1, 28, 28) float32 in 0..1, contiguous.
    """
    weights = _interpolation(images.shape[1], SIDE)
    scaled = images.astype(np.float32) / 16
    return np.ascontiguousarray((weights @ scaled @ weights.T)[:, None])


class Digits:
    """The held-out images as a data set (see `runner.datasets.Dataset`).

    Args:
        path: another `.npz` with `images` (n, 8, 8) uint8 and `labels` (n,); the packaged
            file when None.

    Raises:
        DatasetError: the file is absent or does not hold such arrays.
    """

    def __init__(self, path: Path | None = None) -> None:
        source = path or DATA
        try:
            with np.load(source) as arrays:
                self.images: NDArray[np.uint8] = arrays["images"]
                self.labels: NDArray[np.int64] = arrays["labels"].astype(np.int64)
                self.calibration: NDArray[np.uint8] = arrays.get("calibration", self.images[:0])
        except (OSError, KeyError, ValueError) as error:
            raise DatasetError(
                f"{source}: cannot be read as the digits data set ({error}); expected a .npz "
                "file with 'images' and 'labels'. Reinstall Assay."
            ) from error
        if self.images.ndim != 3 or len(self.images) != len(self.labels):
            raise DatasetError(
                f"{source}: found images {self.images.shape} and labels {self.labels.shape}; "
                "expected (n, 8, 8) images with n labels."
            )

    def __len__(self) -> int:
        return len(self.images)

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[np.float32]]:
        """The preprocessed images of `indices`, in that order: {"image": (n, 1, 28, 28)}."""
        return {INPUT: preprocess(self.images[np.asarray(indices, np.int64)])}

    def calibration_inputs(self) -> dict[str, NDArray[np.float32]]:
        """Model inputs to take quantisation ranges from; none of them is a test image."""
        return {INPUT: preprocess(self.calibration)}

    def unload(self, indices: Sequence[int]) -> None:
        """Nothing to release: the arrays belong to whoever called `load`."""
