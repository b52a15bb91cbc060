"""COCO: the pictures of the 2017 validation set and their annotations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from runner.datasets.images import Cache, Pictures, Recipe
from runner.errors import DatasetError

PLACES = ("annotations/instances_val2017.json", "instances_val2017.json", "annotations.json")
SOURCE = (
    "The pictures are COCO's 2017 validation set (val2017.zip, 5,000 files) and the annotations "
    "its instances_val2017.json (annotations_trainval2017.zip), from cocodataset.org. Unpack both "
    "into one folder, so that it holds val2017/ and annotations/, and name it as the data."
)
Classes = Literal["direct", "inverse"]


class Coco(Pictures):
    """A folder with annotations/instances_val2017.json and val2017/.

    Sample i is image i of the annotation file.

    Args:
        path: the folder, or an annotation file beside or below which the pictures lie.
        recipe: preprocessing of the model.
        classes: "direct": the model gives category ids; "inverse": 1, 2, 3, … in their order.

    Raises:
        DatasetError: no folder was given, or the annotations or the first picture is not there.
    """

    def __init__(
        self,
        path: Path | None = None,
        recipe: Recipe | None = None,
        classes: Classes = "direct",
        cache: Cache | None = None,
    ) -> None:
        from checker.accuracy.detection import read_annotations
        from checker.accuracy.problem import AccuracyError

        if path is None:
            raise DatasetError(f"found no folder of COCO, because none was named. {SOURCE}")
        if path.is_file():
            self.annotation_file = path
        else:
            found = [path / place for place in PLACES if (path / place).is_file()]
            if not found:
                raise DatasetError(f"{path / PLACES[0]}: found no such file. {SOURCE}")
            self.annotation_file = found[0]
        try:
            self._truth = read_annotations(self.annotation_file)
        except AccuracyError as error:
            raise DatasetError(f"{error}. {SOURCE}") from error
        if not self._truth.images:
            raise DatasetError(f"{self.annotation_file}: found no images. {SOURCE}")
        top = path if path.is_dir() else self.annotation_file.parent
        if path.is_file() and top.name == "annotations":
            top = top.parent
        first = self._truth.images[0].file_name
        folder = next(
            (f for f in (top / "val2017", top / "images", top) if (f / first).is_file()),
            top / "val2017",
        )
        super().__init__(
            [folder / image.file_name for image in self._truth.images],
            recipe or SSD_MOBILENET,
            SOURCE,
            checksums=top,
            cache=cache,
        )
        self.require([0])
        self._boxes: dict[int, list[tuple[float, ...]]] = {}
        numbers = {category.id: n + 1 for n, category in enumerate(self._truth.categories)}
        for a in self._truth.annotations:
            x, y, width, height = a.bbox
            label = a.category_id if classes == "direct" else numbers.get(a.category_id, 0)
            self._boxes.setdefault(a.image_id, []).append((y, x, y + height, x + width, label))

    def truth(self, index: int) -> NDArray[np.float32]:
        """True boxes of a picture: (k, 5) [ymin, xmin, ymax, xmax, class], fractions."""
        image = self._truth.images[index]
        boxes = np.array(self._boxes.get(image.id, []), np.float64).reshape(-1, 5)
        boxes[:, :4] /= [image.height, image.width, image.height, image.width]
        return boxes.astype(np.float32)


SSD_MOBILENET = Recipe(
    "linear", 300, whole=True, layout="NHWC", dtype="uint8", input_name="image_tensor:0"
)
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SSD_RESNET34 = Recipe(
    "linear",
    1200,
    mean=(_MEAN[0] * 255, _MEAN[1] * 255, _MEAN[2] * 255),
    scale=(1 / (_DEVIATION[0] * 255), 1 / (_DEVIATION[1] * 255), 1 / (_DEVIATION[2] * 255)),
    input_name="image",
)
# The TensorFlow version of the same network.
SSD_RESNET34_TF = Recipe(
    "linear", 1200, mean=(123.68, 116.78, 103.94), layout="NHWC", input_name="image:0"
)
RECIPES = {
    "ssd-mobilenet": SSD_MOBILENET,
    "ssd-resnet34": SSD_RESNET34,
    "ssd-resnet34-tf": SSD_RESNET34_TF,
}


def coco(recipe: Recipe, classes: Classes) -> partial[Coco]:
    """Opens the data set with this preprocessing."""
    return partial(Coco, recipe=recipe, classes=classes)
