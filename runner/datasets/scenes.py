"""Scenes: real handwritten digits placed by a procedure on a 96×96 canvas, with COCO annotations.

The digits are the UCI digits that travel with the package (`runner.datasets.digits`); where they
stand, how large and how bright they are, and what lies behind them is drawn from NumPy's frozen
`RandomState` in whole numbers only, so that every machine makes the same pictures, byte for byte.
`data/scenes/annotations.json` is written by `tools/train/scenes.py`; it holds the true
boxes in COCO's form and, under "info", the seed and the SHA-256 of the pictures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.datasets.digits import Digits
from runner.errors import DatasetError

DATA = Path(__file__).parent / "data" / "scenes" / "annotations.json"
INPUT = "image"
CANVAS = 96  # pixels
CLASSES = 10
SMALLEST, LARGEST = 14, 40  # pixels of a digit's square
MOST = 5  # digits on a canvas
CALIBRATION, CALIBRATION_SEED = 100, 1


@dataclass(frozen=True)
class Scene:
    """A picture (96, 96) uint8 and its digits: boxes (n, 4) [ymin, xmin, ymax, xmax], pixels."""

    image: NDArray[np.uint8]
    boxes: NDArray[np.int64]
    digits: NDArray[np.int64]


def enlarge(image: NDArray[Any], side: int, full: int) -> NDArray[np.int64]:
    """Bilinear scaling of a square picture of whole numbers 0..full to `side`, values 0..255.

    Pixel centres aligned, edges repeated; exact, rounded down once at the end.
    """
    source = len(image)
    # Places of the new centres in units of 1 / (2 side) of an old pixel.
    unit = 2 * side
    at = np.clip((2 * np.arange(side) + 1) * source - side, 0, (source - 1) * unit)
    left = np.minimum(at // unit, source - 2)
    share = at - left * unit
    pixels = image.astype(np.int64)
    rows = pixels[left] * (unit - share)[:, None] + pixels[left + 1] * share[:, None]
    both = rows[:, left] * (unit - share) + rows[:, left + 1] * share
    result: NDArray[np.int64] = both * 255 // (full * unit * unit)
    return result


def draw(
    random: np.random.RandomState, images: NDArray[np.uint8], labels: NDArray[np.int64]
) -> Scene:
    """One scene with 1 to 5 of the digits, which overlap little if at all.

    Args:
        images: (n, 8, 8), grey values 0..16; `labels` are their classes.
    """
    canvas = enlarge(random.randint(0, 100, (6, 6)), CANVAS, 255)
    canvas += random.randint(-14, 15, (CANVAS, CANVAS))
    boxes: list[tuple[int, int, int, int]] = []
    digits: list[int] = []
    for _ in range(random.randint(1, MOST + 1)):
        for _try in range(20):
            side = random.randint(SMALLEST, LARGEST + 1)
            top, left = random.randint(0, CANVAS - side, 2).tolist()
            chosen = random.randint(len(images))
            strength = random.randint(140, 256)
            ink = enlarge(images[chosen], side, 16)
            rows, columns = np.nonzero(ink > 76)
            box = (
                top + int(rows.min()),
                left + int(columns.min()),
                top + int(rows.max()) + 1,
                left + int(columns.max()) + 1,
            )
            if all(_overlap(box, other) * 8 < _area(box) for other in boxes):
                place = canvas[top : top + side, left : left + side]
                np.maximum(place, ink * strength // 255, out=place)
                boxes.append(box)
                digits.append(int(labels[chosen]))
                break
    return Scene(
        np.clip(canvas, 0, 255).astype(np.uint8), np.array(boxes, np.int64), np.array(digits)
    )


def _area(box: tuple[int, int, int, int]) -> int:
    return (box[2] - box[0]) * (box[3] - box[1])


def _overlap(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> int:
    height = min(a[2], b[2]) - max(a[0], b[0])
    width = min(a[3], b[3]) - max(a[1], b[1])
    return max(0, height) * max(0, width)


def draw_many(
    count: int, seed: int, images: NDArray[np.uint8], labels: NDArray[np.int64]
) -> list[Scene]:
    """`count` scenes from one stream of random numbers."""
    random = np.random.RandomState(seed)
    return [draw(random, images, labels) for _ in range(count)]


def digest(scenes: Sequence[Scene]) -> str:
    """SHA-256 of the pictures, in order."""
    total = hashlib.sha256()
    for scene in scenes:
        total.update(scene.image.tobytes())
    return total.hexdigest()


def coco_annotations(scenes: Sequence[Scene], seed: int) -> dict[str, Any]:
    """The true boxes in COCO's form; category ids are the digit plus 1."""
    boxes: list[dict[str, Any]] = []
    for number, scene in enumerate(scenes):
        for (ymin, xmin, ymax, xmax), label in zip(
            scene.boxes.tolist(), scene.digits.tolist(), strict=True
        ):
            width, height = xmax - xmin, ymax - ymin
            boxes.append(
                {
                    "id": len(boxes) + 1,
                    "image_id": number,
                    "category_id": label + 1,
                    "bbox": [xmin, ymin, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                }
            )
    return {
        "info": {
            "description": "UCI handwritten digits (CC BY 4.0) placed by a procedure; synthetic",
            "seed": seed,
            "scenes": len(scenes),
            "images_sha256": digest(scenes),
        },
        "images": [
            {"id": n, "file_name": f"scene-{n:03}", "height": CANVAS, "width": CANVAS}
            for n in range(len(scenes))
        ],
        "categories": [{"id": n + 1, "name": str(n)} for n in range(CLASSES)],
        "annotations": boxes,
    }


def preprocess(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Pictures (n, 96, 96) to what the model is fed: (n, 1, 96, 96) float32, 0..1."""
    return (images.astype(np.float32) / np.float32(255))[:, None]


def calibration_pictures() -> NDArray[np.uint8]:
    """Scenes (100, 96, 96) to take quantisation ranges from, drawn from training digits only."""
    pool = Digits().calibration
    unlabelled = np.zeros(len(pool), np.int64)  # their classes do not matter
    scenes = draw_many(CALIBRATION, CALIBRATION_SEED, pool, unlabelled)
    return np.stack([scene.image for scene in scenes])


class Scenes:
    """The 200 scenes of the benchmark as a data set (see `runner.datasets.Dataset`).

    Args:
        path: another annotation file with "info", or its folder; the packaged one when None.

    Attributes:
        annotation_file: where the true boxes lie.
        images: (n, 96, 96) uint8.
        boxes, digits: per image, what is on it: boxes (k, 4) [ymin, xmin, ymax, xmax] in pixels.

    Raises:
        DatasetError: the file is absent, or this machine draws other pictures than it names.
    """

    def __init__(self, path: Path | None = None) -> None:
        source = path or DATA
        self.annotation_file = source / DATA.name if source.is_dir() else source
        try:
            info = json.loads(self.annotation_file.read_text("utf-8"))["info"]
            count, seed, expected = info["scenes"], info["seed"], info["images_sha256"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DatasetError(
                f"{self.annotation_file}: cannot be read as the scenes' annotations ({error}); "
                "expected the file that comes with Assay. Reinstall Assay."
            ) from error
        pool = Digits()
        scenes = draw_many(count, seed, pool.images, pool.labels)
        found = digest(scenes)
        if found != expected:
            raise DatasetError(
                f"{self.annotation_file}: found images with SHA-256 {found}; expected "
                f"{expected}. The digits or the drawing code changed, so the annotations do not "
                "belong to these images. Reinstall Assay."
            )
        self.images: NDArray[np.uint8] = np.stack([scene.image for scene in scenes])
        self.boxes = [scene.boxes for scene in scenes]
        self.digits = [scene.digits for scene in scenes]

    def __len__(self) -> int:
        return len(self.images)

    def load(self, indices: Sequence[int]) -> dict[str, NDArray[np.float32]]:
        """The pictures of `indices`, in that order: {"image": (n, 1, 96, 96)}."""
        return {INPUT: preprocess(self.images[np.asarray(indices, np.int64)])}

    def calibration_inputs(self) -> dict[str, NDArray[np.float32]]:
        """Model inputs to take quantisation ranges from; no digit of the scenes is among them."""
        return {INPUT: preprocess(calibration_pictures())}

    def truth(self, index: int) -> NDArray[np.float32]:
        """True boxes of a scene: (k, 5) [ymin, xmin, ymax, xmax, category id], fractions."""
        boxes = self.boxes[index] / np.float32(CANVAS)
        return np.concatenate([boxes, self.digits[index][:, None] + 1], 1).astype(np.float32)

    def unload(self, indices: Sequence[int]) -> None:
        """Nothing to release: the arrays belong to whoever called `load`."""
