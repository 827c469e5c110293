# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX's reference evaluator lacks, computes in float, or has otherwise than they are
defined (groups of convolutions, places of MaxPool), in plain numpy, in the type of their operands."""

import itertools
import math

import numpy as np
import onnx
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_scan


class Erf(OpRun):
    op_domain = ""

    def _run(self, x: np.ndarray) -> tuple:
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


class Gelu(OpRun):
    op_domain = ""

    def _run(self, x: np.ndarray, approximate: str = "none") -> tuple:
        if approximate == "tanh":
            inner = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))
        else:
            inner = np.vectorize(math.erf, otypes=[x.dtype])(x / np.sqrt(2))
        return ((0.5 * x * (1 + inner)).astype(x.dtype),)


class Window:
    """Where a window of a kernel reads: one slice of the padded input an offset in the kernel."""

    def __init__(self, sizes: tuple, kernel: tuple, attrs: dict) -> None:
        axes = len(kernel)
        self.kernel, self.sizes = kernel, sizes
        self.strides = attrs.get("strides") or [1] * axes
        self.dilations = attrs.get("dilations") or [1] * axes
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilations)]
        pads, auto = attrs.get("pads") or [0] * 2 * axes, attrs.get("auto_pad") or "NOTSET"
        self.before, self.behind, self.out = list(pads[:axes]), list(pads[axes:]), []
        for i in range(axes):
            if auto.startswith("SAME"):
                out = -(-sizes[i] // self.strides[i])
                total = max((out - 1) * self.strides[i] + reach[i] - sizes[i], 0)
                small = total // 2
                self.before[i] = small if auto == "SAME_UPPER" else total - small
                self.behind[i] = total - self.before[i]
            else:
                room = sizes[i] + self.before[i] + self.behind[i] - reach[i]
                out = room // self.strides[i] + 1
                if attrs.get("ceil_mode"):
                    out = -(-room // self.strides[i]) + 1
                    out -= (out - 1) * self.strides[i] >= sizes[i] + self.before[i]
            self.out.append(out)
        self.room = [(o - 1) * s + r for o, s, r in zip(self.out, self.strides, reach)]

    def padded(self, x: np.ndarray, fill: float) -> np.ndarray:
        wide = [max(r, s + b) for r, s, b in zip(self.room, self.sizes, self.before)]
        made = np.full((*x.shape[:2], *wide), fill, dtype=x.dtype)
        made[(..., *(slice(b, b + s) for b, s in zip(self.before, self.sizes)))] = x
        return made

    def offsets(self) -> list:
        """(offset in the kernel, what it reads of the padded input)."""
        return [(at, tuple(slice(a * d, a * d + (o - 1) * s + 1, s) for a, d, o, s in
                           zip(at, self.dilations, self.out, self.strides)))
                for at in itertools.product(*(range(k) for k in self.kernel))]


class Conv(OpRun):
    op_domain = ""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None,
             pads=None, strides=None) -> tuple:
        window = Window(x.shape[2:], w.shape[2:], {"auto_pad": auto_pad, "dilations": dilations,
                                                   "pads": pads, "strides": strides})
        wide, group = window.padded(x, 0), group or 1
        parts = []
        for xs, ws in zip(np.split(wide, group, 1), np.split(w, group, 0)):
            parts.append(sum(np.einsum("nc...,mc->nm...", xs[(..., *where)], ws[(..., *at)])
                             for at, where in window.offsets()))
        y = np.concatenate(parts, 1)
        return (y if b is None else y + b.reshape(-1, *[1] * (x.ndim - 2)),)


class ConvTranspose(OpRun):
    op_domain = ""

    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None,
             output_padding=None, output_shape=None, pads=None, strides=None) -> tuple:
        axes, group = x.ndim - 2, group or 1
        assert not output_shape and (auto_pad or "NOTSET") == "NOTSET"
        more, pads = output_padding or [0] * axes, pads or [0] * 2 * axes
        window = Window((1,) * axes, w.shape[2:], {"dilations": dilations, "strides": strides})
        window.out = list(x.shape[2:])
        full = [(o - 1) * s + (k - 1) * d + 1 + m for o, s, k, d, m in
                zip(window.out, window.strides, window.kernel, window.dilations, more)]
        y = np.zeros((x.shape[0], w.shape[1] * group, *full), dtype=x.dtype)
        for ys, xs, ws in zip(np.split(y, group, 1), np.split(x, group, 1), np.split(w, group, 0)):
            for at, where in window.offsets():
                ys[(..., *where)] += np.einsum("nc...,cm->nm...", xs, ws[(..., *at)])
        y = y[(..., *(slice(pads[i], full[i] - pads[axes + i]) for i in range(axes)))]
        return (y if b is None else y + b.reshape(-1, *[1] * axes),)


class MaxPool(OpRun):
    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None,
             storage_order=None, strides=None) -> tuple:
        window = Window(x.shape[2:], tuple(kernel_shape), {
            "auto_pad": auto_pad, "ceil_mode": ceil_mode, "dilations": dilations, "pads": pads,
            "strides": strides})
        wide = window.padded(x, -np.inf)
        numbers = window.padded(np.arange(x.size).reshape(x.shape).astype(np.float64), -1)
        parts = np.stack([wide[(..., *where)] for _, where in window.offsets()])
        places = np.stack([numbers[(..., *where)] for _, where in window.offsets()])
        best = parts.argmax(0)[None]
        return (np.take_along_axis(parts, best, 0)[0],
                np.take_along_axis(places, best, 0)[0].astype(np.int64))[:len(self.onnx_node.output)]


class GlobalLpPool(OpRun):
    op_domain = ""

    def _run(self, x: np.ndarray, p: int = 2) -> tuple:
        return ((np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p),)


class GlobalMaxPool(OpRun):
    op_domain = ""

    def _run(self, x: np.ndarray) -> tuple:
        return (x.max(tuple(range(2, x.ndim)), keepdims=True),)


class LRN(OpRun):
    op_domain = ""

    def _run(self, x, alpha=1e-4, beta=0.75, bias=1.0, size=None) -> tuple:
        low, high = (size - 1) // 2, size // 2
        squares = np.stack([(x[:, max(0, c - low):c + high + 1] ** 2).sum(1)
                            for c in range(x.shape[1])], 1)
        return (x / (bias + alpha / size * squares) ** beta,)


class MeanVarianceNormalization(OpRun):
    op_domain = ""

    def _run(self, x, axes=None) -> tuple:
        over = tuple(axes or (0, 2, 3))
        return ((x - x.mean(over, keepdims=True)) / (x.std(over, keepdims=True) + 1e-9),)


class GroupNormalization(OpRun):
    op_domain = ""

    def _run(self, x, scale, shift, epsilon=1e-5, num_groups=None, stash_type=1) -> tuple:
        parts = x.reshape(x.shape[0], num_groups, -1)
        normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) +
                                                                  epsilon)
        by_channel = (-1, *[1] * (x.ndim - 2))
        return (normal.reshape(x.shape) * scale.reshape(by_channel) + shift.reshape(by_channel),)


class Scan(op_scan.Scan):
    """ONNX's goes forward alone."""

    op_domain = ""

    def __init__(self, node: onnx.NodeProto, params: dict) -> None:
        attrs = {a.name: list(a.ints) for a in node.attribute if a.name.endswith("_directions")}
        self.read = attrs.get("scan_input_directions", [])
        self.given = attrs.get("scan_output_directions", [])
        forward = onnx.NodeProto()
        forward.CopyFrom(node)
        del forward.attribute[:]
        forward.attribute.extend(a for a in node.attribute if a.name not in attrs)
        super().__init__(forward, params)

    def _run(self, *args, **named) -> tuple:
        states = len(args) - self.num_scan_inputs

        def turned(values: tuple, back: list) -> list:
            back = [0] * states + (back or [0] * (len(values) - states))
            return [v[::-1] if b else v for v, b in zip(values, back, strict=True)]
        return tuple(turned(super()._run(*turned(args, self.read), **named), self.given))


FUNCTIONS = {"Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Tanh": np.tanh,
             "Relu": lambda x: np.maximum(x, 0), "Softsign": lambda x: x / (1 + np.abs(x))}


class Recurrent(OpRun):
    """What RNN, GRU and LSTM share: directions, lengths, and states."""

    op_domain = ""
    usual: tuple = ()
    gates = 0

    def step(self, x, h, c, r, wb, rb, p, f) -> tuple:
        raise NotImplementedError

    def _run(self, x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, activations=None,
             direction="forward", hidden_size=None, input_forget=0, linear_before_reset=0,
             **ignored) -> tuple:
        self.forget, self.linear = input_forget, linear_before_reset
        directions, hidden, (steps, batch) = w.shape[0], r.shape[2], x.shape[:2]
        y = np.zeros((steps, directions, batch, hidden), dtype=x.dtype)
        last = np.zeros((2, directions, batch, hidden), dtype=x.dtype)
        for d in range(directions):
            names = (activations or self.usual * directions)[d * len(self.usual):]
            f = [FUNCTIONS[n] for n in names[:len(self.usual)]]
            bias = np.zeros((1, 2 * self.gates * hidden)) if b is None else b[d:d + 1]
            wb, rb = np.split(bias, 2, 1)
            for n in range(batch):
                h = np.zeros((1, hidden)) if h0 is None else h0[d, n:n + 1]
                c = np.zeros((1, hidden)) if c0 is None else c0[d, n:n + 1]
                count = steps if lengths is None else int(lengths[n])
                backwards = d == 1 or direction == "reverse"
                for t in (reversed(range(count)) if backwards else range(count)):
                    h, c = self.step(x[t, n:n + 1] @ w[d].T, h, c, r[d], wb, rb,
                                     None if p is None else p[d:d + 1], f)
                    y[t, d, n] = h
                last[0, d, n], last[1, d, n] = h, c
        return (y, last[0], last[1])[:len(self.onnx_node.output)]


class RNN(Recurrent):
    usual, gates = ("Tanh",), 1

    def step(self, x, h, c, r, wb, rb, p, f) -> tuple:
        return f[0](x + h @ r.T + wb + rb), c


class GRU(Recurrent):
    usual, gates = ("Sigmoid", "Tanh"), 3

    def step(self, x, h, c, r, wb, rb, p, f) -> tuple:
        xz, xr, xh = np.split(x + wb, 3, 1)
        hz, hr, hh = np.split(h @ r.T + rb, 3, 1)
        z, reset = f[0](xz + hz), f[0](xr + hr)
        part = reset * hh if self.linear else (reset * h) @ np.split(r, 3, 0)[2].T + np.split(rb, 3, 1)[2]
        return (1 - z) * f[1](xh + part) + z * h, c


class LSTM(Recurrent):
    usual, gates = ("Sigmoid", "Tanh", "Tanh"), 4

    def step(self, x, h, c, r, wb, rb, p, f) -> tuple:
        i, o, k, g = np.split(x + h @ r.T + wb + rb, 4, 1)
        pi, po, pf = np.split(np.zeros((1, 3 * h.shape[1])) if p is None else p, 3, 1)
        i = f[0](i + pi * c)
        k = 1 - i if self.forget else f[0](k + pf * c)
        c = k * c + i * f[1](g)
        return f[0](o + po * c) * f[2](c), c


class MaxRoiPool(OpRun):
    op_domain = ""

    def _run(self, x, rois, pooled_shape=None, spatial_scale=1.0) -> tuple:
        def ranges(start: float, end: float, bins: int, size: int) -> list:
            start, end = (math.floor(abs(v * spatial_scale) + 0.5) * (1 if v > 0 else -1)
                          for v in (start, end))
            length = max(end - start + 1, 1)
            return [slice(min(max(b * length // bins + start, 0), size),
                          min(max(-((b + 1) * -length // bins) + start, 0), size))
                    for b in range(bins)]
        y = np.zeros((len(rois), x.shape[1], *pooled_shape), dtype=x.dtype)
        for r, (batch, x1, y1, x2, y2) in enumerate(rois):
            for i, rows in enumerate(ranges(y1, y2, pooled_shape[0], x.shape[2])):
                for k, columns in enumerate(ranges(x1, x2, pooled_shape[1], x.shape[3])):
                    part = x[int(batch), :, rows, columns]
                    if part.size:
                        y[r, :, i, k] = part.max((1, 2))
        return (y,)


def reflected(x: float, low: float, high: float) -> float:
    """Back between the borders, as often as it takes."""
    while not low <= x <= high and high > low:
        x = 2 * (low if x < low else high) - x
    return x if high > low else low


def taps(at: float, size: int, mode: str, padding: str, align: bool) -> dict:
    """Element -> weight, of a sample along an axis."""
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if mode == "nearest":
        at = float(np.rint(at))
    if padding == "reflection":
        at = reflected(at, low, high)
    elif padding == "border" and mode != "cubic":
        at = min(max(at, 0.0), size - 1.0)
    base = math.floor(at)
    t, found = at - base, {}
    if mode == "nearest":
        given = {base: 1.0}
    elif mode == "cubic":
        given = {base - 1 + i: cubic(abs(at - (base - 1 + i))) for i in range(4)}
    else:
        given = {base: 1 - t, base + 1: t}
    for place, weight in given.items():
        if padding == "reflection":
            place = int(reflected(place, low, high))
        if padding == "zeros" and not 0 <= place < size:
            continue
        place = min(max(place, 0), size - 1)
        found[place] = found.get(place, 0.0) + weight
    return found


def cubic(d: float, a: float = -0.75) -> float:
    """Keys' convolution kernel."""
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def sample(x: np.ndarray, at: list, *how: object) -> np.ndarray:
    """Of maps (channels, sizes…)."""
    by_axis = [taps(a, size, *how).items() for a, size in zip(at, x.shape[1:])]
    total = np.zeros(x.shape[0], dtype=x.dtype)
    for chosen in itertools.product(*by_axis):
        total = total + x[(slice(None), *(p for p, _ in chosen))] * math.prod(w for _, w in chosen)
    return total


class GridSample(OpRun):
    """ONNX's rounds coordinates to float."""

    op_domain = ""

    def _run(self, x, grid, mode="linear", padding_mode="zeros", align_corners=0) -> tuple:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode or "linear", mode or "linear")
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), dtype=x.dtype)
        for n, *at in np.ndindex(x.shape[0], *grid.shape[1:-1]):
            point = [(c + 1) / 2 * (size - 1) if align_corners else ((c + 1) * size - 1) / 2
                     for c, size in zip(grid[(n, *at)][::-1], x.shape[2:])]
            y[(n, slice(None), *at)] = sample(x[n], point, mode, padding_mode or "zeros",
                                              bool(align_corners))
        return (y,)


class AffineGrid(OpRun):
    """ONNX's is of float."""

    op_domain = ""

    def _run(self, theta, size, align_corners=0) -> tuple:
        axes = [np.linspace(-1, 1, s) if align_corners else (2 * np.arange(s) + 1) / s - 1
                for s in size[2:]]
        points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:])], -1)
        return (np.einsum("nij,...j->n...i", theta, points),)


class Unique(OpRun):
    """ONNX's takes the order of occurrence along the first axis alone."""

    op_domain = ""

    def _run(self, x, axis=None, sorted=1) -> tuple:
        _, first, back, counts = np.unique(x, True, True, True, axis=axis)
        order = np.arange(len(first)) if sorted else np.argsort(first)
        y = np.take(x.reshape(-1) if axis is None else x, first[order], axis=axis or 0)
        return (y, first[order], np.argsort(order)[back].reshape(-1),
                counts[order])[:len(self.onnx_node.output)]


class DeformConv(OpRun):
    """ONNX's samples by its GridSample."""

    op_domain = ""

    def _run(self, x, w, offset, b=None, mask=None, dilations=None, group=1, kernel_shape=None,
             offset_group=1, pads=None, strides=None) -> tuple:
        axes, kernel, out = x.ndim - 2, w.shape[2:], offset.shape[2:]
        group, parts = group or 1, offset_group or 1
        strides, dilations = strides or [1] * axes, dilations or [1] * axes
        offset = offset.reshape(len(x), parts, *kernel, axes, *out)
        mask = np.ones((len(x), parts, *kernel, *out)) if mask is None else \
            mask.reshape(len(x), parts, *kernel, *out)
        read = np.zeros((*x.shape[:2], *kernel, *out), dtype=x.dtype)
        for n, p, *rest in np.ndindex(len(x), parts, *kernel, *out):
            k, o = tuple(rest[:axes]), tuple(rest[axes:])
            at = [o[i] * strides[i] - (pads[i] if pads else 0) + k[i] * dilations[i] +
                  offset[(n, p, *k, i, *o)] for i in range(axes)]
            share = x.shape[1] // parts
            which = slice(p * share, (p + 1) * share)
            read[(n, which, *k, *o)] = sample(x[n, which], at, "linear", "zeros", True) * \
                mask[(n, p, *k, *o)]
        read = read.reshape(len(x), group, -1, math.prod(out))
        y = np.einsum("ngcp,goc->ngop", read, w.reshape(group, w.shape[0] // group, -1))
        y = y.reshape(len(x), w.shape[0], *out)
        return (y if b is None else y + b.reshape(-1, *[1] * axes),)


class CausalConvWithState(OpRun):
    """ONNX's activation is of float."""

    op_domain = ""

    def _run(self, x, w, b=None, past=None, activation="none") -> tuple:
        k = w.shape[2]
        wide = np.concatenate([np.zeros((*x.shape[:2], k - 1)) if past is None else past, x], 2)
        y = sum(wide[:, :, i:i + x.shape[2]] * w[:, 0, i, None] for i in range(k))
        if b is not None:
            y = y + b[:, None]
        if activation and activation != "none":
            y = y / (1 + np.exp(-y))
        return (y, wide[:, :, wide.shape[2] - k + 1:])[:len(self.onnx_node.output)]


class LinearAttention(OpRun):
    """ONNX's is of float."""

    op_domain = ""

    def _run(self, query, key, value, past=None, decay=None, beta=None, chunk_size=64,
             kv_num_heads=None, q_num_heads=None, scale=0.0, update_rule="gated_delta") -> tuple:
        (n, steps, _), heads, group = query.shape, kv_num_heads, q_num_heads // kv_num_heads
        q = query.reshape(n, steps, heads, group, -1)
        k, v = key.reshape(n, steps, heads, -1), value.reshape(n, steps, heads, -1)
        s = np.zeros((n, heads, k.shape[-1], v.shape[-1])) if past is None else past
        y = []
        for t in range(steps):
            if decay is not None:
                s = s * np.exp(decay[:, t].reshape(n, heads, -1))[..., None]
            new = v[:, t]
            if beta is not None:
                new = beta[:, t][..., None] * (new - np.einsum("nhkv,nhk->nhv", s, k[:, t]))
            s = s + k[:, t, :, :, None] * new[:, :, None, :]
            y.append(np.einsum("nhgk,nhkv->nhgv", q[:, t], s).reshape(n, -1))
        y = np.stack(y, 1) * (scale or 1 / math.sqrt(k.shape[-1]))
        return (y, s)[:len(self.onnx_node.output)]


OPERATORS = [Erf, Gelu, Conv, ConvTranspose, MaxPool, GlobalLpPool, GlobalMaxPool, LRN,
             MeanVarianceNormalization, GroupNormalization, RNN, GRU, LSTM, Scan,
             MaxRoiPool, GridSample, AffineGrid, Unique, DeformConv, CausalConvWithState, LinearAttention]
