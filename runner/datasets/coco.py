"""Pictures with annotations in COCO's form: COCO 2017 and MLPerf's part of OpenImages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from runner.datasets.images import Cache, Pictures, Recipe
from runner.errors import DatasetError

Classes = Literal["direct", "inverse"]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a data set keeps its files.

    Attributes:
        name: of the data set, for messages.
        annotations: the annotation file below the folder, the usual one first.
        pictures: folders of pictures, the usual one first.
        source: where it comes from and how to lay it out, for messages.
    """

    name: str
    annotations: tuple[str, ...]
    pictures: tuple[str, ...]
    source: str


COCO_2017 = Place(
    name="COCO",
    annotations=(
        "annotations/instances_val2017.json",
        "instances_val2017.json",
        "annotations.json",
    ),
    pictures=("val2017", "images", "."),
    source=(
        "The pictures are COCO's 2017 validation set (val2017.zip, 5,000 files) and the annotations "
        "its instances_val2017.json (annotations_trainval2017.zip), from cocodataset.org. Unpack "
        "both into one folder, so that it holds val2017/ and annotations/, and name it as the data."
    ),
)
# Laid out as the reference's download script leaves it.
OPENIMAGES = Place(
    name="OpenImages",
    annotations=(
        "annotations/openimages-mlperf.json",
        "openimages-mlperf.json",
        "annotations.json",
    ),
    pictures=("validation/data", "images", "."),
    source=(
        "The pictures are the 24,781 of OpenImages' validation set that MLPerf uses and the "
        "annotations its openimages-mlperf.json, from the download script of MLPerf's vision "
        "reference. Name the folder that holds validation/data/ and annotations/ as the data."
    ),
)


class Coco(Pictures):
    """A folder of pictures and an annotation file in COCO's form, by default COCO 2017.

    Sample i is image i of the annotation file.

    Args:
        path: the folder, or an annotation file beside or below which the pictures are.
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
        place: Place = COCO_2017,
    ) -> None:
        from checker.accuracy.detection import read_annotations
        from checker.accuracy.problem import AccuracyError

        if path is None:
            raise DatasetError(
                f"found no folder of {place.name}, because none was named. {place.source}"
            )
        if path.is_file():
            self.annotation_file = path
        else:
            found = [path / name for name in place.annotations if (path / name).is_file()]
            if not found:
                raise DatasetError(
                    f"{path / place.annotations[0]}: found no such file. {place.source}"
                )
            self.annotation_file = found[0]
        try:
            self._truth = read_annotations(self.annotation_file)
        except AccuracyError as error:
            raise DatasetError(f"{error}. {place.source}") from error
        if not self._truth.images:
            raise DatasetError(f"{self.annotation_file}: found no images. {place.source}")
        top = path if path.is_dir() else self.annotation_file.parent
        if path.is_file() and top.name == "annotations":
            top = top.parent
        first = self._truth.images[0].file_name
        folders = [top / name for name in place.pictures]
        folder = next((f for f in folders if (f / first).is_file()), folders[0])
        super().__init__(
            [folder / image.file_name for image in self._truth.images],
            recipe or SSD_MOBILENET,
            place.source,
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
# The graph itself normalises by mean and deviation.
RETINANET = Recipe("linear", 800, scale=(1 / 255,) * 3, input_name="images")
RECIPES = {
    "ssd-mobilenet": SSD_MOBILENET,
    "ssd-resnet34": SSD_RESNET34,
    "ssd-resnet34-tf": SSD_RESNET34_TF,
}


def coco(recipe: Recipe, classes: Classes) -> partial[Coco]:
    """Opens COCO 2017 with this preprocessing."""
    return partial(Coco, recipe=recipe, classes=classes)


def openimages(recipe: Recipe) -> partial[Coco]:
    """Opens MLPerf's part of OpenImages with this preprocessing; classes are category ids."""
    return partial(Coco, recipe=recipe, place=OPENIMAGES)
