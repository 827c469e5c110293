# SPDX-License-Identifier: Apache-2.0
"""Cases, as gradient_cases.py has them, of images and signals: samples between elements, regions,
transforms, and layers that carry a state."""

from collections.abc import Iterator

import numpy as np

from suite.gradient_cases import Case, Rng, away, between, ints, maker

# ---- samples -----------------------------------------------------------------------------------


def off_elements(rng: Rng, low: float, high: float, shape: tuple) -> np.ndarray:
    """Coordinates that are not within 0.1 of an element, or of the middle between two."""
    halves = np.floor(rng.uniform(low, high, shape) * 2)
    return np.asarray((halves + rng.uniform(0.2, 0.8, shape)) / 2)


def grid_of(rng: Rng, sizes: tuple, out: tuple, align: int) -> np.ndarray:
    """Points inside of the map and around it."""
    parts = []
    for size in reversed(sizes):
        at = off_elements(rng, -2.5, size + 1.5, (2, *out))
        parts.append(2 * at / (size - 1) - 1 if align else (2 * at + 1) / size - 1)
    return np.stack(parts, -1)


@maker("GridSample")
def grid_sample(rng: Rng) -> Iterator[Case]:
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                attrs = {"mode": mode, "padding_mode": padding, "align_corners": align}
                yield Case("GridSample", [away(rng, (2, 2, 3, 4)),
                                          grid_of(rng, (3, 4), (2, 3), align)], attrs,
                           wants=(0,) if mode == "nearest" else None)
    for sizes, out in (((5,), (4,)), ((2, 3, 3), (2, 1, 2))):
        yield Case("GridSample", [away(rng, (2, 1, *sizes)), grid_of(rng, sizes, out, 0)])
    yield Case("GridSample", [away(rng, (2, 2, 3, 4)), grid_of(rng, (3, 4), (2, 3), 0)],
               open_dims=True)
    yield Case("GridSample", [away(rng, (2, 2, 3, 4)), grid_of(rng, (3, 4), (2, 3), 1)],
               {"mode": "bilinear", "align_corners": 1}, opset=16)
    yield Case("GridSample", [away(rng, (2, 2, 3, 4)), grid_of(rng, (3, 4), (2, 3), 0)],
               {"mode": "bicubic", "padding_mode": "border"}, opset=17)
    yield Case("GridSample", [away(rng, (2, 2, 1, 1)), away(rng, (2, 2, 2, 2))],
               {"padding_mode": "reflection", "align_corners": 1}, wants=(0,))


@maker("AffineGrid")
def affine_grid(rng: Rng) -> Iterator[Case]:
    for align in (0, 1):
        attrs = {"align_corners": align}
        yield Case("AffineGrid", [away(rng, (2, 2, 3)), ints(2, 3, 4, 3)], attrs)
        yield Case("AffineGrid", [away(rng, (1, 3, 4)), ints(1, 2, 2, 3, 2)], attrs,
                   constants=(1,))


@maker("DeformConv")
def deform_conv(rng: Rng) -> Iterator[Case]:
    for attrs, out in (({}, (3, 4)), ({"pads": [1, 0, 1, 1], "strides": [2, 1]}, (3, 5)),
                       ({"dilations": [2, 1], "pads": [0, 1, 0, 0]}, (2, 5)),
                       ({"group": 2, "offset_group": 2}, (3, 4))):
        group, parts = attrs.get("group", 1), attrs.get("offset_group", 1)
        kernel = (2, 2)
        offset = off_elements(rng, -1.5, 1.5, (2, parts * 8, *out))
        operands = [away(rng, (2, 4, 4, 5)), away(rng, (2, 4 // group, *kernel)), offset]
        yield Case("DeformConv", operands, attrs)
        yield Case("DeformConv", [*operands, away(rng, (2,)), away(rng, (2, parts * 4, *out))],
                   attrs)
    yield Case("DeformConv", [*operands[:3], None, away(rng, (2, 8, *out))], attrs)


@maker("RoiAlign")
def roi_align(rng: Rng) -> Iterator[Case]:
    rois = np.array([[0.37, 0.81, 4.21, 3.63], [-1.83, 0.57, 2.29, 6.74], [1.13, 2.27, 1.94, 2.86]])
    numbers = ints(1, 0, 1)
    size = {"output_height": 2, "output_width": 3}
    for mode in ("avg", "max"):
        x = rng.permutation(2 * 2 * 4 * 5).reshape(2, 2, 4, 5) * 0.1 - 3.93
        for ratio in (0, 2):
            attrs = {**size, "mode": mode, "sampling_ratio": ratio}
            yield Case("RoiAlign", [x, rois, numbers], attrs)
        yield Case("RoiAlign", [x, rois * 2, numbers],
                   {**attrs, "spatial_scale": 0.5,
                    "coordinate_transformation_mode": "output_half_pixel"})
    yield Case("RoiAlign", [x, rois, numbers], size, open_dims=True)


@maker("MaxRoiPool")
def max_roi_pool(rng: Rng) -> Iterator[Case]:
    rois = np.array([[0.0, 0, 0, 3, 3], [1, 1.3, 0.6, 4.4, 2.4], [1, -2, 2, 1, 9], [0, 7, 7, 9, 9]])
    x = rng.permutation(2 * 2 * 4 * 5).reshape(2, 2, 4, 5) * 0.1 - 3.93
    yield Case("MaxRoiPool", [x, rois], {"pooled_shape": [2, 2]}, wants=(0,))
    yield Case("MaxRoiPool", [x, rois * [1, 2, 2, 2, 2]],
               {"pooled_shape": [3, 2], "spatial_scale": 0.5}, wants=(0,))
    yield Case("MaxRoiPool", [x, rois], {"pooled_shape": [1, 3]}, wants=(0,), open_dims=True)


# ---- columns and crops -------------------------------------------------------------------------

@maker("Col2Im")
def col2im(rng: Rng) -> Iterator[Case]:
    for image, block, attrs, places in (
            ((4, 5), (2, 3), {}, 9), ((4, 4), (2, 2), {"strides": [2, 2]}, 4),
            ((4, 5), (2, 2), {"pads": [1, 0, 0, 1], "dilations": [2, 1]}, 15),
            ((3, 3, 2), (2, 2, 1), {}, 8)):
        x = away(rng, (2, 2 * int(np.prod(block)), places))
        yield Case("Col2Im", [x, ints(*image), ints(*block)], attrs, constants=(1, 2))
        yield Case("Col2Im", [x, ints(*image), ints(*block)], attrs)


@maker("CenterCropPad")
def center_crop_pad(rng: Rng) -> Iterator[Case]:
    x = away(rng, (4, 5, 3))
    yield Case("CenterCropPad", [x, ints(3, 8, 3)])
    yield Case("CenterCropPad", [x, ints(7, 2)], {"axes": [-1, 0]})
    yield Case("CenterCropPad", [x, ints(2)], {"axes": [1]}, open_dims=True)


@maker("TensorScatter")
def tensor_scatter(rng: Rng) -> Iterator[Case]:
    past, update = away(rng, (2, 2, 5, 3)), away(rng, (2, 2, 2, 3))
    yield Case("TensorScatter", [past, update], opset=24)
    yield Case("TensorScatter", [past, update, ints(1, 3)], opset=24)
    yield Case("TensorScatter", [past, update, ints(4, 2)], {"mode": "circular"}, opset=24)
    yield Case("TensorScatter", [past, away(rng, (2, 1, 5, 3)), ints(1, 0)], {"axis": 1}, opset=24,
               open_dims=True)


@maker("Unique")
def unique(rng: Rng) -> Iterator[Case]:
    x = rng.permutation(12).reshape(4, 3) * 0.7
    for attrs in ({}, {"sorted": 0}, {"axis": 0}, {"axis": -1, "sorted": 0}):
        yield Case("Unique", [x], attrs)
        yield Case("Unique", [x], attrs, outputs=4, open_dims=True)


# ---- products and transforms -------------------------------------------------------------------

@maker("CumProd")
def cumprod(rng: Rng) -> Iterator[Case]:
    for exclusive in (0, 1):
        for reverse in (0, 1):
            attrs = {"exclusive": exclusive, "reverse": reverse}
            yield Case("CumProd", [away(rng, (3, 4)), np.array(-1)], attrs, opset=26)
            x = away(rng, (5, 3))
            x[2, 0] = x[1, 1] = x[3, 1] = x[0, 2] = 0
            yield Case("CumProd", [x, np.array(0)], attrs, opset=26, title="zeros")


@maker("Det")
def det(rng: Rng) -> Iterator[Case]:
    for shape in ((3, 3), (2, 2, 2), (2, 1, 4, 4), (2, 1, 1)):
        yield Case("Det", [away(rng, shape)])
    yield Case("Det", [np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])], title="singular")


@maker("DFT")
def dft(rng: Rng) -> Iterator[Case]:
    yield Case("DFT", [away(rng, (2, 5, 2))])
    real, whole = away(rng, (2, 5, 3, 1)), away(rng, (2, 5, 3, 2))
    for inverse in (0, 1):
        attrs = {"inverse": inverse}
        for x in (whole, real):
            yield Case("DFT", [x], attrs)
            yield Case("DFT", [x, np.array(7), np.array(1)], attrs, constants=(2,))
            yield Case("DFT", [x, np.array(3), np.array(-3)], attrs, constants=(2,))
        yield Case("DFT", [whole, np.array(4)], {**attrs, "axis": 1}, opset=17)
        yield Case("DFT", [whole, None, np.array(0)], attrs, constants=(2,), open_dims=False)
    for length in (None, np.array(4), np.array(7)):
        yield Case("DFT", [real, length, np.array(1)], {"onesided": 1}, constants=(2,))
        yield Case("DFT", [whole, length, np.array(1)], {"onesided": 1, "inverse": 1},
                   constants=(2,))
    yield Case("DFT", [real], {"onesided": 1, "axis": 1}, opset=17)


@maker("STFT")
def stft(rng: Rng) -> Iterator[Case]:
    real, window, step = away(rng, (2, 9, 1)), between(rng, 0.3, 1, (4,)), np.array(2)
    for onesided in (0, 1):
        attrs = {"onesided": onesided}
        yield Case("STFT", [real, step, window], attrs)
        yield Case("STFT", [real, step, None, np.array(5)], attrs)
        yield Case("STFT", [real, step, window, np.array(4)], attrs, opset=17)
    yield Case("STFT", [away(rng, (1, 8, 2)), np.array(3), window], {"onesided": 0})


# ---- states ------------------------------------------------------------------------------------

@maker("CausalConvWithState")
def causal_conv(rng: Rng) -> Iterator[Case]:
    x, w, b, past = (away(rng, s) for s in ((2, 3, 5), (3, 1, 4), (3,), (2, 3, 3)))
    yield Case("CausalConvWithState", [x, w], opset=27)
    yield Case("CausalConvWithState", [x, w, b, past], {"activation": "silu"}, outputs=2, opset=27)
    yield Case("CausalConvWithState", [x, w, None, past], outputs=2, opset=27)
    yield Case("CausalConvWithState", [x, w[:, :, :1], b], {"activation": "swish"}, opset=27)


@maker("LinearAttention")
def linear_attention(rng: Rng) -> Iterator[Case]:
    n, t, heads, k, v = 2, 3, 2, 3, 2
    past = away(rng, (n, heads, k, v), scale=0.5)
    for rule in ("linear", "gated", "delta", "gated_delta"):
        decay = -between(rng, 0.1, 1, (n, t, heads)) if "gated" in rule else None
        wide = -between(rng, 0.1, 1, (n, t, heads * k)) if "gated" in rule else None
        beta = between(rng, 0.2, 0.9, (n, t, heads)) if "delta" in rule else None
        key, value = away(rng, (n, t, heads * k), scale=0.5), away(rng, (n, t, heads * v))
        for group, state, fade in ((1, None, decay), (2, past, wide)):
            query = away(rng, (n, t, heads * group * k))
            attrs = {"update_rule": rule, "q_num_heads": heads * group, "kv_num_heads": heads}
            yield Case("LinearAttention", [query, key, value, state, fade, beta],
                       {**attrs, **({"scale": 0.7} if state is None else {})}, outputs=2, opset=27)
            yield Case("LinearAttention", [query, key, value, state, fade, beta], attrs, outputs=2,
                       opset=27, open_dims=True, open_to=2)
    yield Case("LinearAttention", [query, key, value, None, decay, beta[:, :, :1]], attrs, opset=27)
