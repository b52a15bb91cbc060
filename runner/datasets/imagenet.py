"""ImageNet: the pictures of the 2012 validation set and val_map.txt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from runner.datasets.images import Cache, Pictures, Recipe
from runner.errors import DatasetError

MAP = "val_map.txt"
CLASSES = 1000
SOURCE = (
    "The pictures are the ILSVRC 2012 validation set (ILSVRC2012_img_val.tar, 50,000 files, after "
    "registering at image-net.org); val_map.txt, 'file label' a line with labels 0 to 999, is "
    "part of MLPerf's vision reference. Put both into one folder and name it as the data."
)


class ImageNet(Pictures):
    """A folder of pictures listed by val_map.txt (see `runner.datasets.Dataset`).

    Args:
        path: the folder, or the list in it.
        recipe: preprocessing of the model.

    Attributes:
        labels: true classes, 0..999.

    Raises:
        DatasetError: no folder was given, or the list or the first picture is not there.
    """

    def __init__(
        self, path: Path | None = None, recipe: Recipe | None = None, cache: Cache | None = None
    ) -> None:
        from checker.accuracy.problem import AccuracyError
        from checker.accuracy.top1 import iter_val_map

        if path is None:
            raise DatasetError(f"found no folder of ImageNet, because none was named. {SOURCE}")
        listing = path if path.is_file() else path / MAP
        if not listing.is_file():
            raise DatasetError(f"{listing}: found no such file. {SOURCE}")
        try:
            entries = list(iter_val_map(listing))
        except AccuracyError as error:
            raise DatasetError(f"{error}. {SOURCE}") from error
        if not entries:
            raise DatasetError(f"{listing}: found no line of the form 'file label'. {SOURCE}")
        self.labels: NDArray[np.int64] = np.array([label for _, label in entries], np.int64)
        folder = listing.parent
        super().__init__(
            [folder / name for name, _ in entries],
            recipe or RESNET50,
            SOURCE,
            checksums=folder,
            cache=cache,
        )
        self.require(range(min(1, len(entries))))

    def true(self, indices: Sequence[int]) -> NDArray[np.int64]:
        """Labels of these samples."""
        return self.labels[np.asarray(indices, np.int64)]


# The reference's "vgg" preprocessing: area scaling, the means taken off.
RESNET50 = Recipe("area-crop", 224, mean=(123.68, 116.78, 103.94))
# To -1..1.
MOBILENET = Recipe("linear-crop", 224, mean=(127.5,) * 3, scale=(1 / 127.5,) * 3)
# As PyTorch's models were trained: 0..1, then per colour.
PYTORCH = Recipe(
    "pillow-crop",
    224,
    mean=(0.485 * 255, 0.456 * 255, 0.406 * 255),
    scale=(1 / (0.229 * 255), 1 / (0.224 * 255), 1 / (0.225 * 255)),
)
RECIPES = {"resnet50": RESNET50, "mobilenet": MOBILENET, "pytorch": PYTORCH}


def imagenet(recipe: Recipe) -> partial[ImageNet]:
    """Opens the data set with this preprocessing."""
    return partial(ImageNet, recipe=recipe)
