# SPDX-License-Identifier: Apache-2.0
"""Operators whose loops depend on sizes, beside numpy: sizes around those at which blocks, lanes,
chunks and threads begin, with NaN and infinities, with one thread and with three, which must give
the same bits. And small cases of what sizes do not show."""

import argparse
import itertools
import pathlib
import sys
import unittest
import warnings

import numpy as np
import onnx.parser

from suite.package import demi, library_option, session

ROOT = pathlib.Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(11)
args = argparse.Namespace()
NAMES = {np.float32: "float", np.float64: "double", np.int8: "int8", np.uint8: "uint8",
         np.int16: "int16", np.uint16: "uint16", np.int32: "int32", np.uint32: "uint32",
         np.int64: "int64", np.uint64: "uint64", np.bool_: "bool", np.float16: "float16"}


class Runner:
    """A model of one operator, in contexts of one and of three threads."""

    def __init__(self, text: str, opset: int = 21, numerics: str = "fast") -> None:
        model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "f" : 1]> g {text}')
        plan = demi.compile(model.SerializeToString(), numerics=numerics)
        self.contexts = [session(plan, threads) for threads in (1, 3)]

    def run(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        one, three = (context.run(None, feeds) for context in self.contexts)
        for a, b in zip(one, three, strict=True):
            if (a.shape, a.dtype, a.tobytes()) != (b.shape, b.dtype, b.tobytes()):
                shapes = [value.shape for value in feeds.values()]
                raise AssertionError(f"threads change the result of {shapes}")
        return one


def dims(prefix: str, rank: int) -> str:
    return ",".join(f"{prefix}{i}" for i in range(rank))


def elements(shape: tuple[int, ...], dtype: type, special: bool) -> np.ndarray:
    if np.issubdtype(dtype, np.floating):
        x = np.asarray(RNG.standard_normal(shape) * 4, dtype)
        if special and x.size:
            for value, share in ((np.nan, 0.02), (np.inf, 0.02), (-np.inf, 0.02), (-0.0, 0.1)):
                x[RNG.random(shape) < share] = value
        return x
    if dtype == np.bool_:
        return RNG.random(shape) < 0.9
    info = np.iinfo(dtype)
    return np.asarray(RNG.integers(info.min, info.max, shape, dtype, endpoint=True))


# (shape, axes): short and long rows, few and many columns, several groups, one result, none
REDUCED = [((5, 7), (1,)), ((70, 79), (1,)), ((70, 80), (1,)), ((33, 81), (1,)), ((40, 2000), (1,)),
           ((3, 1000003), (1,)), ((1000003,), (0,)), ((700, 3), (0,)), ((1000, 31), (0,)),
           ((1000, 32), (0,)), ((300, 2100), (0,)), ((140, 1029), (0,)), ((80000, 15), (0,)), ((9, 70, 5), (1,)),
           ((50, 3, 4), (1,)), ((7, 30, 9, 11), (1, 3)), ((7, 30, 9, 11), (0, 2)),
           ((40, 3, 50, 2), (0, 2)), ((64, 20, 700), (0, 2)), ((4, 4, 7, 7), (2, 3)), ((), ()),
           ((2, 3, 4), (0, 1, 2)), ((3, 0, 4), (1,)), ((3, 0), (0,)), ((64, 512, 33), (0, 1))]
FOLDS = {"ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceProd": np.prod,
         "ReduceL1": lambda x, axis: np.sum(np.abs(x), axis),
         "ReduceL2": lambda x, axis: np.sqrt(np.sum(np.square(x), axis)),
         "ReduceSumSquare": lambda x, axis: np.sum(np.square(x), axis),
         "ReduceLogSum": lambda x, axis: np.log(np.sum(x, axis)),
         "ReduceLogSumExp": lambda x, axis: np.log(np.sum(np.exp(x), axis))}


class Reductions(unittest.TestCase):
    def runner(self, op: str, dtype: type, rank: int) -> Runner:
        name = NAMES[dtype]
        return Runner(f"({name}[{dims('a', rank)}] x, int64[n] axes) => ({name}[{dims('b', rank)}]"
                      f" y) {{ y = {op} (x, axes) }}")

    def check(self, op: str, dtype: type, want, special: bool) -> None:  # noqa: ANN001
        runners = {rank: self.runner(op, dtype, rank) for rank in range(5)}
        for shape, axes in REDUCED:
            x = elements(shape, dtype, special)
            if op == "ReduceProd" and np.issubdtype(dtype, np.floating):
                x = np.asarray(RNG.uniform(0.99, 1.01, shape), dtype) # no overflow on the way
            with self.subTest(op=op, dtype=dtype.__name__, shape=shape, axes=axes), \
                    warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = runners[len(shape)].run({"x": x, "axes": np.array(axes, np.int64)})[0]
                expected = np.asarray(want(x, axes))
                self.assertEqual(got.shape, expected.shape)
                if np.issubdtype(dtype, np.floating):
                    np.testing.assert_allclose(got.astype(np.float64), expected, 1e-6, 1e-6)
                else:
                    np.testing.assert_array_equal(got, expected)

    def test_floats(self):
        for op, fold in FOLDS.items():
            for dtype in (np.float32, np.float64):
                for special in (False, True):
                    self.check(op, dtype, lambda x, axes, f=fold: np.expand_dims(
                        f(x.astype(np.float64), axis=axes), axes), special)

    def test_extremes(self):
        for op, fold in (("ReduceMax", np.max), ("ReduceMin", np.min)):
            for dtype in (np.float32, np.float64, np.int8, np.uint8, np.int64, np.uint32):
                info = np.finfo(dtype) if np.issubdtype(dtype, np.floating) else np.iinfo(dtype)
                low, high = ((-np.inf, np.inf) if isinstance(info, np.finfo)
                             else (info.min, info.max))
                start = low if op == "ReduceMax" else high
                self.check(op, dtype, lambda x, axes, f=fold, s=start: np.expand_dims(
                    f(x, axis=axes, initial=s), axes), True)

    def test_integers(self):
        """Sums wrap."""
        for dtype in (np.int32, np.uint32, np.int64, np.uint64):
            self.check("ReduceSum", dtype, lambda x, axes, d=dtype: np.expand_dims(
                np.sum(x, axis=axes, dtype=d), axes), False)
            self.check("ReduceProd", dtype, lambda x, axes, d=dtype: np.expand_dims(
                np.prod(x, axis=axes, dtype=d), axes), False)


class GlobalPools(unittest.TestCase):
    SIZES = [0, 1, 7, 8, 31, 32, 33, 64, 95, 1000, 70001]

    def runner(self, op: str, dtype: type) -> Runner:
        return Runner(f"({NAMES[dtype]}[n,c,s] x) => ({NAMES[dtype]}[n,c,1] y) {{ y = {op} (x) }}")

    def test_mean(self):
        for dtype in (np.float32, np.float64):
            runner = self.runner("GlobalAveragePool", dtype)
            for size in self.SIZES:
                x = elements((2, 5, size), dtype, False)
                want = np.sum(x.astype(np.float64), 2, keepdims=True) / max(size, 1)
                with self.subTest(dtype=dtype.__name__, size=size):
                    np.testing.assert_allclose(runner.run({"x": x})[0], want, 1e-6, 1e-6)

    def test_max(self):
        """NaN counts as the largest; of zeros the first, whatever its sign."""
        for dtype in (np.float32, np.float64):
            runner = self.runner("GlobalMaxPool", dtype)
            for size in self.SIZES:
                x = elements((3, 5, size), dtype, True)
                x[1] = -(RNG.random(x[1].shape) < 0.9).astype(dtype)
                x[1][x[1] > -1] = np.copysign(0, RNG.random(x[1].shape) - 0.5)[x[1] > -1]
                x[2] = np.nan_to_num(x[2])
                want = np.max(x, 2, keepdims=True, initial=-np.inf)
                for row, best in zip(x[1], want[1], strict=True):
                    best[:] = row[row == best[0]][:1] if size else best
                with self.subTest(dtype=dtype.__name__, size=size):
                    got = runner.run({"x": x})[0]
                    np.testing.assert_array_equal(got, want)
                    np.testing.assert_array_equal(np.signbit(got[1]), np.signbit(want[1]))


class Recurrent(unittest.TestCase):
    """Constant weights are packed; those that are inputs are read as they lie. Without lengths,
    steps work where the products of their inputs are."""

    GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
    # steps, sequences, inputs, hidden units
    SIZES = [(1, 1, 3, 5), (1, 2, 16, 16), (4, 1, 33, 64), (3, 3, 7, 17), (9, 8, 70, 65),
             (2, 13, 100, 48), (5, 30, 20, 96)]

    def check(self, op: str, attributes: str, sizes: tuple[int, int, int, int],
              uneven: bool) -> None:
        steps, batch, inputs, hidden = sizes
        ways, width = 2 if "bidirectional" in attributes else 1, self.GATES[op] * hidden
        shape = (batch, steps, inputs) if "layout = 1" in attributes else (steps, batch, inputs)
        weights = {name: np.float32(RNG.standard_normal(dims) / np.sqrt(dims[-1])) for name, dims in
                   (("W", (ways, width, inputs)), ("R", (ways, width, hidden)))}
        weights["B"] = np.float32(RNG.standard_normal((ways, 2 * width)))
        feeds = {"x": np.float32(RNG.standard_normal(shape)),
                 "l": RNG.integers(0 if uneven else steps, steps, batch, np.int32, endpoint=True)}
        text = (f'<ir_version: 10, opset_import: ["" : 21]> g (float[a,b,c] x, int32[n] l%s) =>'
                f" (float[d,e,f,h] y, float[i,j,k] s) {{ y, s = {op} <hidden_size = {hidden}"
                f"{attributes}> (x, W, R, B, l) }}")
        given = ", ".join(["", *(f"float[{','.join(map(str, v.shape))}] {name}"
                                 for name, v in weights.items())])
        read = onnx.parser.parse_model(text % given)
        packed = onnx.parser.parse_model(text % "")
        if not uneven:
            packed.graph.node[0].input.pop()
        packed.graph.initializer.extend(
            onnx.numpy_helper.from_array(v, name) for name, v in weights.items())
        want = session(read.SerializeToString()).run(None, feeds | weights)
        for threads in (1, 3):
            runner = session(packed.SerializeToString(), threads)
            for got, expected in zip(runner.run(None, feeds), want, strict=True):
                np.testing.assert_allclose(got, expected, 1e-4, 1e-5)

    def test_packed(self):
        for op in self.GATES:
            for direction in ("forward", "bidirectional"):
                for extra in ("", ", layout = 1", ", linear_before_reset = 1"):
                    if "linear" in extra and op != "GRU":
                        continue
                    for sizes in self.SIZES:
                        with self.subTest(op=op, direction=direction, extra=extra, sizes=sizes):
                            for uneven in (False, True):
                                self.check(op, f', direction = "{direction}"{extra}', sizes,
                                           uneven)


class AlongOneAxis(unittest.TestCase):
    SHAPES = [(3, 5, 2), (1, 1, 1), (2, 31, 40), (4, 33, 1), (700, 3, 65), (2, 2, 2500),
              (5, 1030, 3), (1, 2100, 1), (1, 200000, 1), (64, 64, 33), (1, 700, 600)]

    def test_arg(self):
        for dtype in (np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64):
            for op, find in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
                for last in (0, 1):
                    for axis in range(3):
                        runner = Runner(
                            f"({NAMES[dtype]}[a,b,c] x) => (int64[d,e] y) {{ y = {op} <axis ="
                            f" {axis}, keepdims = 0, select_last_index = {last}> (x) }}")
                        for shape in self.SHAPES:
                            x = elements(shape, dtype, True)
                            if RNG.random() < 0.5:
                                x = np.clip(x, 0, 3) # many that are equal
                            want = find(np.flip(x, axis) if last else x, axis=axis)
                            want = shape[axis] - 1 - want if last else want
                            with self.subTest(op=op, dtype=dtype.__name__, last=last, axis=axis,
                                              shape=shape):
                                np.testing.assert_array_equal(runner.run({"x": x})[0], want)

    def test_running(self):
        for op, cumulate in (("CumSum", np.cumsum), ("CumProd", np.cumprod)):
            for dtype in (np.float32, np.int64):
                for reverse in (0, 1):
                    runner = Runner(f"({NAMES[dtype]}[a,b,c] x, int64 axis) => ({NAMES[dtype]}"
                                    f"[a,b,c] y) {{ y = {op} <reverse = {reverse}> (x, axis) }}",
                                    26)
                    for shape in self.SHAPES:
                        x = RNG.integers(-2, 3, shape).astype(dtype)
                        if dtype == np.float32:
                            x = RNG.uniform(0.9, 1.1, shape).astype(dtype)
                        axis = RNG.integers(0, 3)
                        wide = np.flip(x, axis) if reverse else x
                        want = cumulate(wide.astype(np.float64) if dtype == np.float32 else wide,
                                        axis=axis)
                        want = np.flip(want, axis) if reverse else want
                        with self.subTest(op=op, shape=shape, axis=axis, reverse=reverse):
                            got = runner.run({"x": x, "axis": np.array(axis)})[0]
                            np.testing.assert_allclose(got, want.astype(dtype), 2e-7)


class Quantization(unittest.TestCase):
    """One scale for all, for each place of an axis, for blocks of it."""

    SHAPES = [(3, 64, 2), (3, 50, 1), (2, 2048, 40), (1, 64, 1), (700, 64, 65), (5, 320, 3), (300, 32, 300)]

    def cases(self):  # noqa: ANN201
        for shape in self.SHAPES:
            for axis in range(3):
                yield shape, axis, (), 0
                yield shape, axis, (shape[axis],), 0
            yield shape, 1, (shape[0], -(shape[1] // -32), shape[2]), 32

    def spread(self, values: np.ndarray, shape: tuple, axis: int, block: int) -> np.ndarray:
        if block:
            return np.repeat(values, block, axis)[:, :shape[axis]]
        return values if values.ndim == 0 else values.reshape(
            [-1 if i == axis else 1 for i in range(len(shape))])

    def test_both_ways(self):
        for shape, axis, dims, block in self.cases():
            s = RNG.uniform(0.01, 0.1, dims).astype(np.float32)
            z = RNG.integers(-20, 20, dims).astype(np.int8)
            with self.subTest(shape=shape, axis=axis, scales=dims):
                many = f"float[{','.join(map(str, dims))}] s, int8[{','.join(map(str, dims))}] z"
                if not dims:
                    many = "float s, int8 z"
                runner = Runner(
                    f"(float[a,b,c] x, {many}) => (int8[a,b,c] q, float[a,b,c] y) {{ q ="
                    f" QuantizeLinear <axis = {axis}, block_size = {block}> (x, s, z) y ="
                    f" DequantizeLinear <axis = {axis}, block_size = {block}> (q, s, z) }}")
                x = elements(shape, np.float32, False)
                q, y = runner.run({"x": x, "s": s, "z": z})
                wide = self.spread(s, shape, axis, block)
                zero = self.spread(z, shape, axis, block).astype(np.float32)
                want = np.clip(np.rint(x / wide) + zero, -128, 127)
                np.testing.assert_array_equal(q, want.astype(np.int8))
                np.testing.assert_array_equal(y, (want.astype(np.float32) - zero) * wide)

    def test_dynamic(self):
        runner = Runner("(float[n] x) => (uint8[n] y, float s, uint8 z)"
                        " { y, s, z = DynamicQuantizeLinear (x) }")
        for n in (0, 1, 31, 32, 33, 5000, 200003):
            x = elements((n,), np.float32, False)
            low = np.float32(min(0, x.min(initial=0)))
            high = np.float32(max(0, x.max(initial=0)))
            scale = np.float32((high - low if high != low else np.float32(1)) / np.float32(255))
            zero = np.rint(np.clip(np.float32(0) - low / scale, 0, 255)).astype(np.float32)
            y, s, z = runner.run({"x": x})
            self.assertEqual((float(s), int(z)), (float(scale), int(zero)))
            np.testing.assert_array_equal(y, np.clip(np.rint(x / scale) + zero, 0, 255))


class Chosen(unittest.TestCase):
    """What the definitions give, in numbers; a NaN is the largest."""

    NAN, HALF_TANH = np.nan, np.tanh(0.5)
    CASES = [
        # a place in columns of a plane that is wider than high
        ("(float[1,1,2,3] x) => (float[1,1,1,1] y, int64[1,1,1,1] i)"
         " { y, i = MaxPool <kernel_shape = [2, 3], storage_order = 1> (x) }",
         [[[[[1, 2, NAN], [3, 4, 5]]]]], [[[[[NAN]]]], [[[[4]]]]]),
        ("(float[1,3,2] x) => (float[1,3,2] y) { y = Hardmax <axis = 1> (x) }",
         [[[[5, 1], [NAN, 2], [6, NAN]]]], [[[[0, 0], [1, 0], [0, 1]]]]),
        ("(float[1,3,1] x) => (float[1,3,1] y) { y = LRN <alpha = 2., beta = 1., size = 2> (x) }",
         [[[[1], [2], [3]]]], [[[[1 / 6], [2 / 14], [3 / 10]]]]),
        # weights of 0: what a gate gives is its biases'
        ("(float[1,1,1] x, float[1,1,1] w, float[1,1,1] r) => (float[1,1,1,1] y) { y = RNN <hidden_size = 1,"
         ' activations = ["ScaledTanh"], activation_alpha = [2.], activation_beta = [0.5]> (x, w, r) }',
         [[[[1]]], [[[1]]], [[[0]]]], [[[[[2 * HALF_TANH]]]]]),
        ("(float[1,1,1] x, float[1,3,1] w, float[1,3,1] r, float[1,6] b) => (float[1,1,1,1] y)"
         " { y = GRU <hidden_size = 1, linear_before_reset = 1> (x, w, r, b) }",
         [[[[1]]], [[[0]] * 3], [[[0]] * 3], [[0, 0, 0, 0, 0, 1]]], [[[[[HALF_TANH / 2]]]]]),
        ("(float16[3] x, int64[3] i, float16[3] u) => (float16[3] y)"
         ' { y = ScatterElements <reduction = "max"> (x, i, u) }',
         [[1, NAN, 3], [0, 1, 2], [NAN, 5, 4]], [[NAN, NAN, 4]]),
        # each call's own parameter
        ("(float[1] x) => (float[1] y) { a = f.F <s = 2.> (x) y = f.F <s = 3.> (a) }"
         ' <domain: "f", opset_import: ["" : 21]> F <s> (x) => (y)'
         " { c = Constant <value_float: float = @s> () y = Mul (x, c) }", [[1]], [[6]]),
        # slices that no iteration made: as ONNX Runtime has it, all sizes that nothing says are 0
        ("(int64 trips, float[a] x) => (float[b,c] y) { yes = Constant <value = bool {1}> ()"
         " y = Loop (trips, yes) <body = l (int64 i, bool go) => (bool on, float[d] p)"
         " { on = Identity (go) p = Mul (x, x) }> }", [np.array(0), [1, 2]], [np.zeros((0, 0))]),
    ]

    def test_numbers(self) -> None:
        for (text, given, expected), numerics in itertools.product(self.CASES, ("fast", "faithful")):
            runner = Runner(text, numerics=numerics)
            feeds = dict(zip((x.name for x in runner.contexts[0].get_inputs()), given, strict=True))
            for got, want in zip(runner.run(feeds), expected, strict=True):
                with self.subTest(text, numerics=numerics):
                    np.testing.assert_allclose(got, want, 1e-6)


class Fourier(unittest.TestCase):
    """Against numpy's transforms in double. Every size to 40, powers and products of small primes,
    large primes and products with them."""

    SIZES = [*range(1, 41), 49, 60, 64, 77, 97, 100, 121, 127, 128, 143, 169, 210, 221, 289, 361,
             400, 480, 529, 997, 1000, 1024, 1021, 1155, 2048, 2310, 4001, 16000]

    def close(self, got: np.ndarray, want: np.ndarray, error: float) -> None:
        self.assertEqual(got.shape, want.shape)
        largest = max(np.abs(want).max(initial=0), 1e-300)
        self.assertLess(np.abs(got - want).max(initial=0) / largest, error)

    def test_dft(self):
        for n in self.SIZES:
            runners = {}
            for parts, one, back in ((1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 0, 1), (2, 1, 1),
                                     (1, 1, 1)):
                if back and one and n < 2:
                    continue
                runners[parts, one, back] = runner = Runner(
                    f"(double[a,b,c,d] x) => (double[a,e,c,f] y) {{ n = Constant <value_int = {n}>"
                    f" () axis = Constant <value_int = 1> () y = DFT <onesided = {one}, inverse ="
                    f" {back}> (x, n, axis) }}")
                for lines, inner in ((1, 1), (2, 1), (5, 1), (9, 3)):
                    size = n // 2 + 1 if back and one else n
                    x = RNG.standard_normal((lines, size, inner, parts))
                    z = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
                    if back and one:
                        want = np.fft.irfft(z, n, axis=1)[..., None]
                    else:
                        w = (np.fft.ifft if back else np.fft.fft)(z, axis=1)
                        w = w[:, :n // 2 + 1] if one else w
                        want = np.stack([w.real, w.imag], -1)
                    with self.subTest(n=n, parts=parts, one=one, back=back, lines=lines):
                        self.close(runner.run({"x": x})[0], want, 1e-14)

    def test_lengths(self):
        """A length that cuts or pads, told only when it runs."""
        runner = Runner("(float[a,b,1] x, int64 n) => (float[a,c,2] y) { y = DFT (x, n) }", 20)
        x = RNG.standard_normal((4, 30, 1)).astype(np.float32)
        for n in (1, 7, 29, 30, 31, 64, 97):
            w = np.fft.fft(x[..., 0], n, axis=1)
            got = runner.run({"x": x, "n": np.array(n)})[0]
            self.close(got, np.stack([w.real, w.imag], -1), 2e-7)

    def test_stft(self):
        for n in (1, 2, 7, 16, 25, 29, 100, 400, 480):
            for parts in (1, 2):
                for one in ((0, 1) if parts == 1 else (0,)):
                    for step in (1, 3, n):
                        runner = Runner(
                            f"(float[a,b,{parts}] x, float[{n}] w) => (float[a,f,g,2] y) {{ s ="
                            f" Constant <value_int = {step}> () y = STFT <onesided = {one}>"
                            f" (x, s, w) }}")
                        x = RNG.standard_normal((2, n + 37, parts)).astype(np.float32)
                        window = RNG.random(n, np.float32)
                        z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if parts == 2 else 0)
                        starts = range(0, 37 + 1, step)
                        frames = np.stack([z[:, s:s + n] * window for s in starts], 1)
                        w = np.fft.fft(frames, axis=-1)
                        w = w[..., :n // 2 + 1] if one else w
                        with self.subTest(n=n, parts=parts, one=one, step=step):
                            got = runner.run({"x": x, "w": window})[0]
                            self.close(got, np.stack([w.real, w.imag], -1), 2e-7)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], parents=[library_option])
    args, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
