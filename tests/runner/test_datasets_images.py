"""Preprocessing against the definitions, the cache, and what is said when a file is absent."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runner.datasets.coco import SSD_MOBILENET, SSD_RESNET34, Coco
from runner.datasets.imagenet import MOBILENET, PYTORCH, RESNET50, ImageNet
from runner.datasets.images import Cache, Recipe, cache_folder
from runner.errors import DatasetError

Image = pytest.importorskip("PIL.Image")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ASSAY_CACHE", str(folder))
    return folder


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth with some noise, as photographs are."""
    random = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width].astype(float)
    waves = [np.sin(x / (9 + 5 * c)) + np.cos(y / (7 + 4 * c)) + x / width for c in range(3)]
    noise = random.randint(-25, 26, (height, width, 3))
    return np.clip(110 + 45 * np.stack(waves, 2) + noise, 0, 255).astype(np.uint8)


def write(path: Path, pixels: NDArray[np.uint8], **options: Any) -> NDArray[np.uint8]:
    """Save a picture; what a decoder reads from it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return np.asarray(Image.open(path).convert("RGB"))


def imagenet(folder: Path, pictures: dict[str, int]) -> list[NDArray[np.uint8]]:
    """val_map.txt and its pictures, names with their sizes' seeds."""
    sizes = [(375, 500), (500, 333), (180, 240), (512, 512), (256, 300)]
    read = [
        write(folder / name, picture(*sizes[k % len(sizes)], k), format="JPEG", quality=92)
        for k, name in enumerate(pictures)
    ]
    lines = "".join(f"{name} {label}\n" for name, label in pictures.items())
    (folder / "val_map.txt").write_text(lines)
    return read


# Independent of runner.datasets.images: one pixel at a time, from the definition, in float64.


def area_pixel(old: NDArray[Any], size: tuple[int, int], y: int, x: int) -> NDArray[Any]:
    """Mean of the area that pixel (y, x) of a picture shrunk to `size` covers."""
    high, wide = old.shape[0] / size[0], old.shape[1] / size[1]
    top, bottom, left, right = y * high, (y + 1) * high, x * wide, (x + 1) * wide
    total, weights = np.zeros(3), 0.0
    for j in range(int(top), min(int(np.ceil(bottom)), old.shape[0])):
        for i in range(int(left), min(int(np.ceil(right)), old.shape[1])):
            part = (min(bottom, j + 1) - max(top, j)) * (min(right, i + 1) - max(left, i))
            total, weights = total + part * old[j, i], weights + part
    return total / weights


def linear_pixel(old: NDArray[Any], size: tuple[int, int], y: int, x: int) -> NDArray[Any]:
    """Between the four old pixels around the middle of pixel (y, x)."""
    v = min(max((y + 0.5) * old.shape[0] / size[0] - 0.5, 0), old.shape[0] - 1)
    u = min(max((x + 0.5) * old.shape[1] / size[1] - 0.5, 0), old.shape[1] - 1)
    j, i = int(v), int(u)
    below, beside = min(j + 1, old.shape[0] - 1), min(i + 1, old.shape[1] - 1)
    a, b = v - j, u - i
    old = old.astype(np.float64)
    upper = old[j, i] * (1 - b) + old[j, beside] * b
    return np.asarray(upper * (1 - a) + (old[below, i] * (1 - b) + old[below, beside] * b) * a)


def some_places(side: int, count: int = 150) -> list[tuple[int, int]]:
    corners = [(0, 0), (0, side - 1), (side - 1, 0), (side - 1, side - 1)]
    drawn = np.random.RandomState(1).randint(0, side, (count, 2)).tolist()
    return corners + [(y, x) for y, x in drawn]


def shorter_to_256(height: int, width: int) -> tuple[int, int]:
    if height > width:
        return 256 * height // width, 256
    return 256, 256 * width // height


def test_resnet50_preprocessing(tmp_path: Path) -> None:
    names = {f"ILSVRC2012_val_{k:08}.JPEG": k for k in range(5)}
    read = imagenet(tmp_path, names)
    got = ImageNet(tmp_path, RESNET50).load(range(5))["input"]
    assert got.shape == (5, 3, 224, 224) and got.dtype == np.float32
    for row, old in zip(got, read, strict=True):
        size = shorter_to_256(*old.shape[:2])
        top, left = (size[0] - 224) // 2, (size[1] - 224) // 2
        pixel = area_pixel if min(old.shape[:2]) > 256 else None
        if pixel is None and old.shape[0] != 256:
            continue  # it grows: test_small_pictures_grow
        for y, x in some_places(224):
            want = (
                pixel(old, size, y + top, x + left)
                if pixel
                else old[y + top, x + left].astype(float)
            )
            want = want - [123.68, 116.78, 103.94]
            assert np.abs(row[:, y, x] - want).max() <= 0.51  # rounded to whole grey values


def test_small_pictures_grow(tmp_path: Path) -> None:
    old = imagenet(tmp_path, {"a.JPEG": 0, "b.JPEG": 1, "c.JPEG": 2})[2]
    got = ImageNet(tmp_path, RESNET50).load([2])["input"][0]
    got = got.transpose(1, 2, 0) + np.array([123.68, 116.78, 103.94], np.float32)
    # Every new pixel lies within what its old neighbours span.
    size, top, left = shorter_to_256(*old.shape[:2]), 16, 58
    assert size == (256, 341)
    for y, x in some_places(224):
        v = int((y + top) * old.shape[0] / size[0])
        u = int((x + left) * old.shape[1] / size[1])
        near = old[max(0, v - 1) : v + 3, max(0, u - 1) : u + 3].reshape(-1, 3)
        assert (got[y, x] >= near.min(0) - 0.6).all() and (got[y, x] <= near.max(0) + 0.6).all()


def test_mobilenet_preprocessing(tmp_path: Path) -> None:
    read = imagenet(tmp_path, {"a.JPEG": 0, "b.JPEG": 1, "c.JPEG": 2})
    recipe = Recipe(**{**vars(MOBILENET), "layout": "NHWC"})
    got = ImageNet(tmp_path, recipe).load([1, 2])["input"]
    assert got.shape == (2, 224, 224, 3)
    assert -1 <= got.min() < -0.5 and 0.5 < got.max() <= 1
    for row, old in zip(got, read[1:], strict=True):
        size = shorter_to_256(*old.shape[:2])
        top, left = (size[0] - 224) // 2, (size[1] - 224) // 2
        for y, x in some_places(224):
            want = linear_pixel(old, size, y + top, x + left)
            assert np.abs((row[y, x] / 2 + 0.5) * 255 - want).max() <= 0.75


def test_pytorch_preprocessing(tmp_path: Path) -> None:
    (old, *_) = imagenet(tmp_path, {"a.JPEG": 0})
    got = ImageNet(tmp_path, PYTORCH).load([0])["input"][0].transpose(1, 2, 0)
    scaled = Image.fromarray(old).resize((341, 256), Image.Resampling.BILINEAR)
    want = np.asarray(scaled)[16:240, 58:282] / 255.0
    want = (want - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert np.abs(got - want).max() < 1e-4


def coco_folder(folder: Path, sizes: list[tuple[int, int]]) -> list[NDArray[np.uint8]]:
    read, images, boxes = [], [], []
    for k, (height, width) in enumerate(sizes):
        name = f"{139 + k:012}.jpg"
        read.append(write(folder / "val2017" / name, picture(height, width, k), quality=92))
        images.append({"id": 139 + k, "file_name": name, "height": height, "width": width})
        boxes.append({"id": k + 1, "image_id": 139 + k, "category_id": 3, "bbox": [10, 20, 30, 40]})
    truth = {
        "images": images,
        "annotations": boxes,
        "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "car"}],
    }
    (folder / "annotations").mkdir(parents=True)
    (folder / "annotations" / "instances_val2017.json").write_text(json.dumps(truth))
    return read


def test_ssd_preprocessing(tmp_path: Path) -> None:
    read = coco_folder(tmp_path, [(480, 640), (427, 333)])
    small = Coco(tmp_path, SSD_MOBILENET).load([0, 1])["image_tensor:0"]
    assert small.shape == (2, 300, 300, 3) and small.dtype == np.uint8
    large = Coco(tmp_path, SSD_RESNET34).load([0, 1])["image"]
    assert large.shape == (2, 3, 1200, 1200) and large.dtype == np.float32
    for k, old in enumerate(read):
        for y, x in some_places(300):
            want = linear_pixel(old, (300, 300), y, x)
            # The reference cuts fractions off; a whole number may come out just below itself.
            assert (want - 1.001 <= small[k, y, x]).all() and (small[k, y, x] <= want + 0.001).all()
        for y, x in some_places(1200):
            want = linear_pixel(old, (1200, 1200), y, x) / 255
            want = (want - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
            assert np.abs(large[k, :, y, x] - want).max() < 1e-4


def test_coco_knows_its_boxes(tmp_path: Path) -> None:
    coco_folder(tmp_path, [(480, 640)])
    (box,) = Coco(tmp_path).truth(0)
    assert np.allclose(box, [20 / 480, 10 / 640, 60 / 480, 40 / 640, 3])
    assert Coco(tmp_path, classes="inverse").truth(0)[0, 4] == 2
    assert len(Coco(tmp_path / "annotations" / "instances_val2017.json")) == 1


def test_pictures_are_upright_and_in_colour(tmp_path: Path) -> None:
    upright = picture(300, 400)
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side: to be turned clockwise
    write(
        tmp_path / "turned.JPEG",
        np.rot90(upright),
        format="JPEG",
        quality=100,
        subsampling=0,
        exif=exif,
    )
    write(tmp_path / "grey.JPEG", upright[:, :, 0], format="JPEG")
    write(tmp_path / "alpha.png", np.dstack([upright, upright[:, :, :1]]))
    (tmp_path / "val_map.txt").write_text("turned.JPEG 1\ngrey.JPEG 2\nalpha.png 3\n")
    turned, grey, alpha = ImageNet(tmp_path, RESNET50).load(range(3))["input"]
    assert np.abs(turned - alpha).mean() < 4
    back = grey + np.array([123.68, 116.78, 103.94], np.float32)[:, None, None]
    assert np.abs(back[0] - back[1]).max() < 0.01


def test_the_cache_is_used_and_never_stale(tmp_path: Path, own_cache: Path) -> None:
    names = {"a.JPEG": 0, "b.JPEG": 1, "c.JPEG": 2}
    imagenet(tmp_path, names)
    first = ImageNet(tmp_path, RESNET50).load(range(3))["input"]
    files = sorted(p for p in own_cache.rglob("*") if p.is_file())
    assert len(files) == 3
    # What is kept is what is used: mark it, behind its own checksum.
    for file in files:
        pixels = bytes(224 * 224 * 3)
        file.write_bytes(hashlib.sha256(pixels).digest() + pixels)
    marked = ImageNet(tmp_path, RESNET50).load(range(3))["input"]
    assert np.allclose(marked[0, 0], -123.68)
    # Another preprocessing, and another picture of the same name, size and time, are other files.
    other = ImageNet(tmp_path, MOBILENET).load(range(3))["input"]
    assert not np.allclose(other, -1)
    path = tmp_path / "a.JPEG"
    before = path.stat()
    content = bytearray(path.read_bytes())
    at = content.index(b"\xff\xda") + 200
    content[at] ^= 1
    path.write_bytes(content)
    import os

    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = ImageNet(tmp_path, RESNET50).load(range(3))["input"]
    assert not np.allclose(changed[0, 0], -123.68) and np.allclose(changed[1], marked[1])
    # What is damaged is made again.
    for file in files:
        file.write_bytes(file.read_bytes()[:-1])
    again = ImageNet(tmp_path, RESNET50).load([1, 2])["input"]
    assert np.array_equal(again, first[1:])


def test_a_layout_shares_the_kept_pixels(tmp_path: Path, own_cache: Path) -> None:
    imagenet(tmp_path, {"a.JPEG": 0})
    one = ImageNet(tmp_path, RESNET50).load([0])["input"]
    other = ImageNet(tmp_path, Recipe(**{**vars(RESNET50), "layout": "NHWC"})).load([0])["input"]
    assert np.array_equal(one[0].transpose(1, 2, 0), other[0])
    assert len([p for p in own_cache.rglob("*") if p.is_file()]) == 1


def test_a_cache_that_cannot_be_written_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imagenet(tmp_path, {"a.JPEG": 0})
    (tmp_path / "file").write_text("")
    for value in (str(tmp_path / "file"), "off"):
        monkeypatch.setenv("ASSAY_CACHE", value)
        assert ImageNet(tmp_path, RESNET50).load([0])["input"].shape == (1, 3, 224, 224)
    assert cache_folder() is None
    monkeypatch.setattr("runner.datasets.images.SPARE_DISK", 2**62)  # a full disk
    folder = tmp_path / "full"
    ImageNet(tmp_path, RESNET50, Cache(folder)).load([0])
    assert not [p for p in folder.rglob("*") if p.is_file()]


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.datasets.images.REPORT_EVERY_S", -1.0)
    imagenet(tmp_path, {f"{k}.JPEG": k for k in range(6)})
    dataset = ImageNet(tmp_path, RESNET50)
    told: list[str] = []
    dataset.on_progress = told.append
    dataset.load(range(6))
    assert told and told[-1] == "6 of 6 pictures"


def test_absent_files_are_named_with_their_source(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"none was named.*ILSVRC 2012"):
        ImageNet(None)
    with pytest.raises(DatasetError, match=r"val_map\.txt: found no such file.*image-net\.org"):
        ImageNet(tmp_path)
    (tmp_path / "val_map.txt").write_text("ILSVRC2012_val_00000001.JPEG 65\n")
    with pytest.raises(DatasetError, match=r"val_00000001\.JPEG: found no such picture"):
        ImageNet(tmp_path)
    (tmp_path / "val_map.txt").write_text("ILSVRC2012_val_00000001.JPEG sixty\n")
    with pytest.raises(DatasetError, match=r"val_map\.txt:1"):
        ImageNet(tmp_path)
    with pytest.raises(DatasetError, match=r"instances_val2017\.json.*cocodataset\.org"):
        Coco(tmp_path)
    with pytest.raises(DatasetError, match="none was named"):
        Coco(None)
    coco_folder(tmp_path, [(30, 40), (40, 30)])
    (tmp_path / "val2017" / "000000000140.jpg").unlink()
    dataset = Coco(tmp_path)
    with pytest.raises(DatasetError, match=r"000000000140\.jpg: found no such picture.*val2017"):
        dataset.load([0, 1])
    (tmp_path / "val2017" / "000000000140.jpg").write_bytes(b"no picture")
    with pytest.raises(DatasetError, match="10 bytes that are not a picture"):
        dataset.load([0, 1])


def test_checksums_are_compared(tmp_path: Path) -> None:
    imagenet(tmp_path, {"a.JPEG": 0, "b.JPEG": 1})
    good = hashlib.sha256((tmp_path / "a.JPEG").read_bytes()).hexdigest()
    (tmp_path / "SHA256SUMS").write_text(f"{good}  a.JPEG\n{'0' * 64}  b.JPEG\n")
    dataset = ImageNet(tmp_path, RESNET50)
    dataset.load([0])
    with pytest.raises(DatasetError, match=r"b\.JPEG: found another file than SHA256SUMS"):
        dataset.load([1])
    (tmp_path / "SHA256SUMS").write_text("nonsense\n")
    with pytest.raises(DatasetError, match="SHA256SUMS:1"):
        ImageNet(tmp_path, RESNET50)
