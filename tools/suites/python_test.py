# SPDX-License-Identifier: Apache-2.0
"""The Python package demi_onnx: values, sessions, passes, errors, and what wrong arguments do.

With DEMI_LIBRARY in the environment it is the package of this tree with that library, else the one that
is installed. Needs numpy, onnx and ml_dtypes; torch, jax and pandas are used where they are there.

    DEMI_LIBRARY=build/release/libdemi.so tools/suites/python_test.py [unittest's options]
"""

import asyncio
import contextlib
import ctypes
import gc
import importlib.util
import os
import pathlib
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnx.reference
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
if "DEMI_LIBRARY" in os.environ:
    sys.path.insert(0, str(ROOT / "tools/python"))

import demi_onnx as demi  # noqa: E402
from demi_onnx import _abi_functions, _lib, _values  # noqa: E402

DEMI_FOLDER = os.path.dirname(demi.__file__)
CONV = str(ROOT / "testdata/models/conv_net.onnx")
PATIENCE_S = 300  # what does not end is a failure


def info(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=21):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def unary(op, dtype=TensorProto.FLOAT, shape=("N", 4), out=None, **attrs):
    return model_of([helper.make_node(op, ["x"], ["y"], **attrs)], [info("x", dtype, shape)],
                    [info("y", out or dtype, shape)])


def matmul(size=64):
    weights = helper.make_tensor("w", TensorProto.FLOAT, [size, size],
                                 np.random.default_rng(1).standard_normal(size * size) / size)
    return model_of([helper.make_node("MatMul", ["x", "w"], ["t"]),
                     helper.make_node("Relu", ["t"], ["y"])],
                    [info("x", TensorProto.FLOAT, ["N", size])],
                    [info("y", TensorProto.FLOAT, ["N", size])], [weights])


@contextlib.contextmanager
def interrupted(seconds):
    """Ctrl-C comes once this thread has computed for so long, however busy the machine is."""
    computed, over = time.pthread_getcpuclockid(threading.get_ident()), threading.Event()
    end = time.clock_gettime(computed) + seconds

    def wait():
        while not over.wait(0.001):
            if time.clock_gettime(computed) > end:
                return os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def endless():
    """A loop of 2^40 iterations."""
    body = helper.make_graph([helper.make_node("Identity", ["c"], ["d"]),
                              helper.make_node("Add", ["s", "s"], ["t"])], "b",
                             [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []),
                              info("s", TensorProto.FLOAT, [1])],
                             [info("d", TensorProto.BOOL, []), info("t", TensorProto.FLOAT, [1])])
    trip = helper.make_tensor("m", TensorProto.INT64, [], [1 << 40])
    return model_of([helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)],
                    [info("x", TensorProto.FLOAT, [1])], [info("y", TensorProto.FLOAT, [1])], [trip])


class Library(unittest.TestCase):
    def test_functions(self):
        """It has all that the headers declare."""
        for name in _abi_functions.FUNCTIONS:
            self.assertTrue(callable(getattr(_lib.lib, name)))
        with self.assertRaises(AttributeError):
            _lib.lib.demi_nothing()


class Values(unittest.TestCase):
    """What goes in and comes out of runs."""

    def test_shape_of_onnxruntime(self):
        session = demi.InferenceSession(unary("Relu").SerializeToString(),
                                        providers=["CPUExecutionProvider"])
        arg = session.get_inputs()[0]
        self.assertEqual((arg.name, arg.shape, arg.type), ("x", ["N", 4], "tensor(float)"))
        self.assertEqual(session.get_outputs()[0].name, "y")
        x = np.array([[-1, 2, -3, 4]], np.float32)
        for names in (None, ["y"]):
            np.testing.assert_array_equal(session.run(names, {"x": x})[0], np.maximum(x, 0))

    def test_results_are_the_callers(self):
        """Small, large, of known and of open shapes: no result changes with a later run, or ends with
        the session."""
        for shape, run in (([1, 4], (1, 4)), (["N", 4], (2, 4)), ([300, 100], (300, 100)),
                           (["N", 100], (300, 100))):
            session = demi.Session(unary("Neg", shape=shape))
            draw = np.random.default_rng(0)
            xs = [draw.standard_normal(run).astype(np.float32) for _ in range(5)]
            ys = [session.run(None, {"x": x})[0] for x in xs]
            del session
            gc.collect()
            for x, y in zip(xs, ys):
                np.testing.assert_array_equal(y, -x)
                self.assertTrue(y.flags.writeable)
                y[...] = 0

    def test_no_copy_of_inputs(self):
        """Contiguous inputs are read where they lie: the library is told their address."""
        session = demi.Session(unary("Neg", shape=["N", 1000]))
        x = np.ones((500, 1000), np.float32)
        session.run(None, {"x": x})
        slot = session._free[0]._inputs[0]
        self.assertEqual(slot.raw.data, x.ctypes.data)
        other = np.full((500, 1000), 2, np.float32)
        y, = session.run(None, {"x": other})
        self.assertEqual(slot.raw.data, other.ctypes.data)
        self.assertEqual(y[0, 0], -2)
        other[...] = 3 # the same address with other contents
        self.assertEqual(session.run(None, {"x": other})[0][0, 0], -3)

    def test_no_copy_of_outputs(self):
        """Large results of known shapes are made where the caller has them."""
        session = demi.Session(unary("Neg", shape=[500, 1000]))
        x = np.ones((500, 1000), np.float32)
        session.run(None, {"x": x})
        y, = session.run(None, {"x": x})
        raw = session._free[0]._outputs[0].raw
        self.assertEqual(raw.data, y.ctypes.data)

    def test_strided_and_readonly(self):
        session = demi.Session(unary("Neg"))
        x = np.arange(32, dtype=np.float32).reshape(4, 8)
        for view in (x[:, ::2], x[::-1, :4], x.T[:, :4], np.asfortranarray(x[:, :4])):
            np.testing.assert_array_equal(session.run(None, {"x": view})[0], -view)
        for k in range(3):  # the second and third go the quick way
            y = x[:, :4] + k
            y.flags.writeable = False
            np.testing.assert_array_equal(session.run(None, {"x": y})[0], -y)
        raw = np.zeros(4 * 4 * 4 + 1, np.uint8)
        crooked = raw[1:].view(np.float32).reshape(4, 4)
        np.testing.assert_array_equal(session.run(None, {"x": crooked})[0], -crooked)
        swapped = np.ones((2, 4), ">f4")
        np.testing.assert_array_equal(session.run(None, {"x": swapped})[0], -np.ones((2, 4)))

    def test_types(self):
        for number, dtype in ((TensorProto.FLOAT16, np.float16), (TensorProto.DOUBLE, np.float64),
                              (TensorProto.INT64, np.int64), (TensorProto.BFLOAT16, ml_dtypes.bfloat16)):
            session = demi.Session(unary("Neg", number))
            for rows in (1, 3, 0):
                x = np.arange(4 * rows).reshape(rows, 4).astype(dtype)
                for _ in range(2):
                    y, = session.run(None, {"x": x})
                    self.assertEqual((y.dtype, y.shape), (x.dtype, x.shape))
                    np.testing.assert_array_equal(y.astype(np.float64), -x.astype(np.float64))
        for number, dtype in ((TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
                              (TensorProto.INT4, ml_dtypes.int4), (TensorProto.BOOL, bool),
                              (TensorProto.UINT8, np.uint8)):
            session = demi.Session(unary("Identity", number))
            x = np.array([[0, 1, 0, 1]]).astype(dtype)
            y, = session.run(None, {"x": x})
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))

    def test_large_open_bfloat16(self):
        """What is taken out of a context is of ml_dtypes' types, too."""
        session = demi.Session(unary("Neg", TensorProto.BFLOAT16, ("N", 1000)))
        x = np.ones((200, 1000), ml_dtypes.bfloat16)
        for _ in range(3):
            y, = session.run(None, {"x": x})
            self.assertEqual((y.dtype, y.shape, float(y[3, 7])), (x.dtype, x.shape, -1))

    def test_scalars_and_empty(self):
        session = demi.Session(unary("Neg", shape=[]))
        y, = session.run(None, {"x": np.float32(3)})
        self.assertEqual((y.shape, y[()]), ((), -3))
        self.assertEqual(session.run(None, {"x": 4.0})[0][()], -4)
        session = demi.Session(unary("Neg", shape=["N"]))
        self.assertEqual(session.run(None, {"x": [1.0, 2.0]})[0].tolist(), [-1, -2])
        self.assertEqual(session.run(None, {"x": np.zeros(0, np.float32)})[0].shape, (0,))

    def test_strings(self):
        session = demi.Session(unary("Identity", TensorProto.STRING))
        x = np.array([["a", "Ärger", "", "x\0y"]], dtype=object)
        for _ in range(2):
            self.assertEqual(session.run(None, {"x": x})[0].tolist(), x.tolist())
        self.assertEqual(session.run(None, {"x": x.astype("U")[:, :3].repeat(2, 1)[:, :4]})[0].shape,
                         (1, 4))

    def test_sequences_and_optionals(self):
        sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
        model = model_of([helper.make_node("SequenceConstruct", ["x", "x"], ["s"])],
                         [info("x", TensorProto.FLOAT, ["N"])], [sequence])
        x = np.ones(3, np.float32)
        made, = demi.Session(model).run(None, {"x": x})
        self.assertEqual([v.tolist() for v in made], [[1, 1, 1]] * 2)
        model = model_of([helper.make_node("SequenceLength", ["s"], ["n"])], [sequence],
                         [info("n", TensorProto.INT64, [])])
        self.assertEqual(demi.Session(model).run(None, {"s": [x, x, x]})[0], 3)
        maybe = onnx.ValueInfoProto(name="o", type=helper.make_optional_type_proto(
            helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])))
        model = model_of([helper.make_node("OptionalHasElement", ["o"], ["b"])], [maybe],
                         [info("b", TensorProto.BOOL, [])])
        session = demi.Session(model)
        for value, has in ((x, True), (None, False), (x, True)):
            self.assertEqual(bool(session.run(None, {"o": value})[0]), has)
        self.assertFalse(session.run(None, {})[0])

    def test_defaults(self):
        """An input that has a default has it again where it is not fed."""
        one = helper.make_tensor("b", TensorProto.FLOAT, [1], [1])
        model = model_of([helper.make_node("Add", ["x", "b"], ["y"])],
                         [info("x", TensorProto.FLOAT, [1]), info("b", TensorProto.FLOAT, [1])],
                         [info("y", TensorProto.FLOAT, [1])], [one])
        session = demi.Session(model)
        x = np.array([5], np.float32)
        for feeds, want in (({"x": x}, 6), ({"x": x, "b": x}, 10), ({"x": x}, 6)):
            self.assertEqual(session.run(None, feeds)[0][0], want)

    def test_passed_through(self):
        """Outputs that are inputs or constants are copies, of strings, too."""
        model = model_of([], [info("x", TensorProto.FLOAT, ["N"])], [info("x", TensorProto.FLOAT, ["N"])])
        session = demi.Session(model)
        x = np.ones(3, np.float32)
        y, = session.run(None, {"x": x})
        y[0] = 7
        self.assertEqual(x[0], 1)

    def test_results_of_calls(self):
        """Outputs that calls of one function give, its operand or its constant too, have their names."""
        model = onnx.parser.parse_model("""
            <ir_version: 10, opset_import: ["" : 21, "f" : 1]>
            g (float[2] x, float[2] z) => (float[2] y1, float[2] y2, float[2] same, float[2] k, float[2] k2,
                                           float[2] again) <float[2] c = {3, -4}> {
                y1, same, k = f.F (x)  again = Identity (same)  y2, t, k2 = f.F (c) }
            <domain: "f", opset_import: ["" : 21]>
            F (a) => (out, a2, fixed) { out = Neg (a)  a2 = Identity (a)
                                        fixed = Constant <value_floats = [7.0, 8.0]> () }""")
        session, x = demi.Session(model), np.array([1, -2], np.float32)
        names = [out.name for out in session.get_outputs()]
        self.assertEqual(names, ["y1", "y2", "same", "k", "k2", "again"])
        feeds = {"x": x, "z": x}
        want = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        for _ in range(2):
            for name, a, b in zip(names, session.run(None, feeds), want, strict=True):
                np.testing.assert_array_equal(a, b)
                np.testing.assert_array_equal(session.run([name], feeds)[0], b)

    def test_wrong_shape_declared(self):
        """Results have the shape that was made, not the declared one."""
        shape = helper.make_tensor("s", TensorProto.INT64, [2], [-1, 2])
        model = model_of([helper.make_node("Identity", ["s"], ["t"]),
                          helper.make_node("Add", ["t", "d"], ["r"]),
                          helper.make_node("Reshape", ["x", "r"], ["y"])],
                         [info("x", TensorProto.FLOAT, [4]), info("d", TensorProto.INT64, [2])],
                         [info("y", TensorProto.FLOAT, [2, 2])], [shape])
        session = demi.Session(model)
        x = np.arange(4, dtype=np.float32)
        for d, want in (([0, 0], (2, 2)), ([0, -1], (4, 1)), ([2, 2], (1, 4)), ([0, 0], (2, 2))):
            y, = session.run(None, {"x": x, "d": np.array(d, np.int64)})
            self.assertEqual(y.shape, want)
            np.testing.assert_array_equal(y.ravel(), x)

    def test_some_outputs(self):
        model = model_of([helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["x"], ["b"])],
                         [info("x", TensorProto.FLOAT, [200, 200])],
                         [info("a", TensorProto.FLOAT, [200, 200]),
                          info("b", TensorProto.FLOAT, [200, 200])])
        session = demi.Session(model)
        x = np.full((200, 200), -2, np.float32)
        a, b = session.run(None, {"x": x})
        b2, = session.run(["b"], {"x": x + 1})
        b3, a3 = session.run(["b", "a"], {"x": x})
        self.assertEqual([v[0, 0] for v in (a, b, b2, b3, a3)], [2, 2, 1, 2, 2])

    def test_dlpack(self):
        session = demi.Session(unary("Neg", shape=["N", 100]))
        x = np.ones((300, 100), np.float32)
        y, = session.run(None, {"x": x})
        self.assertEqual(np.from_dlpack(y).ctypes.data, y.ctypes.data)

        class Foreign:
            def __dlpack__(self, **how):
                return x.__dlpack__(**how)

            def __dlpack_device__(self):
                return x.__dlpack_device__()

        z, = session.run(None, {"x": Foreign()})
        self.assertEqual(session._free[0]._inputs[0].raw.data, x.ctypes.data)
        np.testing.assert_array_equal(y, z)
        if importlib.util.find_spec("torch"):
            import torch
            t = torch.ones((300, 100), requires_grad=True)
            z, = session.run(None, {"x": t})
            np.testing.assert_array_equal(torch.from_dlpack(z).numpy(), y)

    def test_io_binding(self):
        for shape in ([2, 4], ["N", 4]):
            session = demi.Session(unary("Neg", shape=shape))
            binding = session.io_binding()
            x, y = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
            binding.bind_input("x", x)
            binding.bind_output("y", y)
            for k in range(3):
                x[...] = k
                session.run_with_iobinding(binding)
                self.assertIs(binding.get_outputs()[0], y)
                self.assertEqual(y[1, 3], -k)
            binding.bind_output("y")
            session.run_with_iobinding(binding)
            self.assertIsNot(binding.copy_outputs_to_cpu()[0], y)
            binding.bind_output("y", x)
            with self.assertRaisesRegex(demi.UsageError, "memory of an input"):
                session.run_with_iobinding(binding)
            binding.bind_output("y", np.zeros((1, 4), np.float32))
            with self.assertRaises(demi.DemiError):
                session.run_with_iobinding(binding)


class Sessions(unittest.TestCase):
    """Threads, ends of runs, copies of sessions."""

    def test_threads(self):
        session = demi.Session(matmul(), threads=1)
        draw = np.random.default_rng(0)
        xs = [draw.standard_normal((k % 3 + 1, 64)).astype(np.float32) for k in range(12)]
        wants = [session.run(None, {"x": x})[0] for x in xs]
        wrong = []

        def work(seed):
            order = random.Random(seed)
            for _ in range(300):
                k = order.randrange(len(xs))
                if not np.array_equal(session.run(None, {"x": xs[k]})[0], wants[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(session._free), 6)

    def test_lock_is_released(self):
        """Another thread has the interpreter while a run is under way: the run's own goes on."""
        session, over = demi.Session(endless(), time_limit=PATIENCE_S), threading.Event()
        computed = time.pthread_getcpuclockid(threading.get_ident())

        def watch():
            while not over.wait(0.001):  # the one time that it is given away
                before = time.clock_gettime(computed)
                for _ in range(100000):
                    pass
                if time.clock_gettime(computed) > before + 0.001:
                    return os.kill(os.getpid(), signal.SIGINT)

        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(PATIENCE_S)
        thread = threading.Thread(target=watch)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            session.run(None, {"x": np.ones(1, np.float32)})
        over.set()
        thread.join()

    def test_interrupt(self):
        """Ctrl-C ends a run."""
        session = demi.Session(endless(), time_limit=PATIENCE_S)
        with self.assertRaises(KeyboardInterrupt), interrupted(0.1):
            session.run(None, {"x": np.ones(1, np.float32)})

    def test_cycles(self):
        """Sessions in cycles, which are collected in any order, and those alive at the interpreter's end."""
        script = f"""if True:
            import gc
            import sys
            import demi_onnx as demi
            gc.set_threshold(1)
            for _ in range(50):
                session = demi.Session({CONV!r}, threads=1)
                session.itself = session
                session._plan.cycle = session._free[0]
                session._free[0].cycle = session._plan
                del session
                gc.collect()
            sys.modules["kept"] = demi.Session({CONV!r}, threads=1)
            alive = demi.Session({CONV!r}, threads=1)
            alive.itself = alive, sys.modules
        """
        package = os.path.dirname(os.path.dirname(demi.__file__))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                              env={**os.environ, "MALLOC_PERTURB_": "85", "PYTHONPATH": package})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_plan_goes_last(self):
        """Whatever order finalizers come in: the library's contexts hold their plan."""
        session = demi.Session(CONV, threads=1)
        plan = session._plan
        shape = [size if isinstance(size, int) else 1 for size in session.get_inputs()[0].shape]
        x = np.zeros(shape, np.float32)
        before = session.run(None, {session.get_inputs()[0].name: x})
        plan.__del__()
        plan.pointer = None  # it comes again
        np.testing.assert_array_equal(session.run(None, {session.get_inputs()[0].name: x})[0], before[0])

    def test_unknown_types(self):
        """Of an operand whose type is not known, values are what they are."""
        self.assertEqual(_values.dtype_of(0), np.dtype(object))
        self.assertEqual(_values.array_of([1.5], 0).dtype, np.dtype(np.float64))
        for items, number in (([1.5], 11), (["a"], 8), ([3], 7)):
            self.assertEqual(_values.number_of(np.asarray(items).dtype, 0), number)

    def test_integers_do_not_wrap(self):
        for words in ({"threads": 1 << 32}, {"seed": 1 << 64}, {"memory_budget": 1 << 64},
                      {"step_limit": (1 << 64) + 1}, {"seed": -1}):
            with self.assertRaises(demi.UsageError, msg=words):
                demi.Session(CONV, **words)

    def test_interrupt_within_a_kernel(self):
        """Ctrl-C and a time limit end a single kernel, whose work grows faster than its operands."""
        model = model_of([helper.make_node("Det", ["x"], ["y"])],
                         [info("x", TensorProto.DOUBLE, ["N", "N"])],
                         [info("y", TensorProto.DOUBLE, [])])
        x = np.random.default_rng(0).standard_normal((4000, 4000))
        begin = time.process_time()
        with self.assertRaises(KeyboardInterrupt), interrupted(0.5):
            demi.Session(model, time_limit=PATIENCE_S).run(None, {"x": x})
        with self.assertRaisesRegex(demi.EnvironmentFailure, "exceeds its time limit"):
            demi.Session(model, time_limit=0.5).run(None, {"x": x})
        self.assertLess(time.process_time() - begin, 6)

    def test_async(self):
        session = demi.Session(matmul(), threads=1)
        x = np.ones((2, 64), np.float32)
        want, = session.run(None, {"x": x})

        async def all_of():
            return await asyncio.gather(*[session.run_async(None, {"x": x}) for _ in range(8)])

        for made, in asyncio.run(all_of()):
            np.testing.assert_array_equal(made, want)
        slow, begin = demi.Session(endless(), time_limit=PATIENCE_S), time.process_time()

        async def cancelled():
            run = asyncio.create_task(slow.run_async(None, {"x": x[:1, :1].ravel()}))
            while time.process_time() < begin + 0.1:  # until it computes
                await asyncio.sleep(0.001)
            run.cancel()
            await run

        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(cancelled())
        self.assertLess(time.process_time() - begin, 3)  # its thread has ended, too

    def test_pickle(self):
        x = np.ones((1, 3, 8, 8), np.float32)
        for model in (CONV, open(CONV, "rb").read(), onnx.load(CONV)):
            session = demi.Session(model, threads=1, numerics="faithful")
            again = pickle.loads(pickle.dumps(session))
            np.testing.assert_array_equal(again.run(None, {"x": x})[0], session.run(None, {"x": x})[0])
            self.assertEqual(again._how["numerics"], "faithful")

    def test_limits(self):
        session = demi.Session(endless(), step_limit=1000, time_limit=20)
        for _ in range(2):
            with self.assertRaisesRegex(demi.EnvironmentFailure, "1000 steps"):
                session.run(None, {"x": np.ones(1, np.float32)})
        for name in ("threads", "memory_budget", "device_memory", "step_limit"):
            with self.assertRaisesRegex(demi.UsageError, name):
                demi.Session(CONV, **{name: -1})

    def test_memory_peak(self):
        session = demi.Session(matmul(), threads=1)
        peaks = []
        for rows in (1, 1000, 1):
            session.run(None, {"x": np.ones((rows, 64), np.float32)})
            peaks.append(session.memory_peak())
        self.assertGreater(peaks[1], max(peaks[0], 1000 * 64 * 4))

    def test_arguments(self):
        for number, name in ((TensorProto.BFLOAT16, "bfloat16"), (TensorProto.INT64, "int64")):
            self.assertEqual(demi.Session(unary("Abs", number)).get_inputs()[0].dtype.name, name)

    def test_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.plan"
            demi.compile(CONV, path)
            x = np.ones((1, 3, 8, 8), np.float32)
            want, = demi.Session(CONV).run(None, {"x": x})
            of_bytes = demi.Session(demi.compile(CONV))
            for session in (demi.Session(path), of_bytes, pickle.loads(pickle.dumps(of_bytes))):
                np.testing.assert_array_equal(session.run(None, {"x": x})[0], want)
            with self.assertRaises(demi.ModelError):
                demi.Session(demi.compile(CONV)[:-100])
        plans = [demi.compile(matmul(), isa=isa) for isa in ("none", "portable", "avx2", "avx512")]
        self.assertEqual(len(set(plans)), 4)
        constants = [helper.make_tensor("c", TensorProto.FLOAT, [1], [1.5]),
                     helper.make_tensor("s", TensorProto.INT64, [1], [1 << 16])]
        large = model_of([helper.make_node("Expand", ["c", "s"], ["e"]), helper.make_node("Sin", ["e"], ["f"]),
                          helper.make_node("Mul", ["x", "f"], ["y"])],
                         [info("x", 1, [1])], [info("y", 1, [1 << 16])], constants)
        self.assertLess(len(demi.compile(large, memory_budget=1)), len(demi.compile(large)))
        for wrong in ({"isa": "sse"}, {"memory_budget": -1}, {"numerics": "exact"}):
            self.assertRaises(demi.UsageError, demi.compile, CONV, **wrong)


class Passes(unittest.TestCase):
    def test_rewrite(self):
        @demi.register_pass("test-abs", summary="Neg, then Relu", options={"to": "Abs", "count": 3})
        def rewrite(graph, to, count):
            """y = Relu(Neg(x)) becomes to(x) + count."""
            for node in graph.nodes:
                if node.op_type != "Relu" or node.inputs[0].producer.op_type != "Neg":
                    continue
                neg = node.inputs[0].producer
                number = graph.add_initializer("count", np.array(count, np.float32))
                one = graph.add_node(to, [neg.inputs[0]], ["t"], before=node, name="one")
                two = graph.add_node("Add", [one.outputs[0], number], before=node, like=node.outputs[0])
                node.outputs[0].replace_with(two.outputs[0])
                node.remove()
                neg.remove()
                graph.changed()

        self.assertIn("test-abs", demi.list_passes())
        model = model_of([helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
                         [info("x", 1, ["N"])], [info("y", 1, ["N"])])
        x = np.array([-1, 2], np.float32)
        for pipeline, want in (("test-abs", [4, 5]),
                               (demi.Pipeline(("test-abs", {"to": "Neg", "count": 1})), [2, -1])):
            made, report = demi.run_passes(model, pipeline, verify_each=True)
            self.assertEqual(report.totals.rewrites, 1)
            self.assertEqual(demi.Session(made).run(None, {"x": x})[0].tolist(), want)

    def test_what_a_pass_raises(self):
        """Its exception is the cause of the error; Ctrl-C is Ctrl-C."""
        @demi.register_pass("test-raises", options={"how": "KeyError"})
        def raises(graph, how):
            raise {"KeyError": KeyError, "KeyboardInterrupt": KeyboardInterrupt}[how]("here")

        with self.assertRaises(demi.ModelError) as caught:
            demi.run_passes(matmul(), "test-raises")
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        self.assertEqual(caught.exception.__cause__.__traceback__.tb_next.tb_frame.f_code.co_name,
                         "raises")
        with self.assertRaises(KeyboardInterrupt):
            demi.run_passes(matmul(), demi.Pipeline(("test-raises", {"how": "KeyboardInterrupt"})))
        with self.assertRaises(demi.DemiError) as caught:  # nothing is left of it
            demi.run_passes(b"junk", "test-raises")
        self.assertIsNone(caught.exception.__cause__)

    def test_what_a_pass_keeps(self):
        """What it was given of the model means nothing behind it, nor what it has removed within it."""
        kept = []

        @demi.register_pass("test-keeps")
        def keeps(graph):
            node = graph.add_node("Neg", [graph.inputs[0]])
            kept.extend([graph, graph.inputs[0], next(iter(graph.nodes)), node])
            node.remove()
            for use in (lambda: node.name, lambda: node.inputs, node.remove,
                        lambda: node.set_attribute("axis", 1)):
                with self.assertRaisesRegex(demi.PassError, "removed"):
                    use()
            with self.assertRaisesRegex(demi.UsageError, "64-bit"):
                kept[2].set_attribute("axis", 1 << 63)
            with self.assertRaisesRegex(demi.UsageError, "64-bit"):
                kept[2].set_attribute("axes", [1, -1 << 64])

        demi.run_passes(matmul(), "test-keeps")
        for use in (lambda: kept[0].name, lambda: list(kept[0].nodes), lambda: kept[1].name,
                    lambda: kept[1].shape, lambda: kept[2].op_type, lambda: kept[2].remove()):
            with self.assertRaisesRegex(demi.PassError, "returned"):
                use()

    def test_reads(self):
        seen = {}

        @demi.register_pass("test-look", options={"flag": False, "names": list, "text": str})
        def look(graph, flag, names, text):
            seen.update(flag=flag, names=names, text=text, opset=graph.opset(),
                        inputs=[v.name for v in graph.inputs], outputs=[v.name for v in graph.outputs])
            for node in graph.nodes:
                node.set_attribute("axis", 1)
                seen.update(axis=node.attribute("axis"), none=node.attribute("none", 5),
                            users=[n.op_type for n in graph.value("x").users],
                            shape=graph.value("x").shape, dtype=graph.value("x").dtype)
            graph.print("100 %\n")

        said = []
        demi.run_passes(unary("Softmax"), "infer-dtypes,test-look{flag=true,names=[a,b]}",
                        print=said.append)
        self.assertEqual(seen, {"flag": True, "names": ["a", "b"], "text": None, "opset": 21,
                                "inputs": ["x"], "outputs": ["y"], "axis": 1, "none": 5,
                                "users": ["Softmax"], "shape": ["N", 4],
                                "dtype": np.dtype("float32")})
        self.assertIn("100 %", "".join(said))

    def test_failures(self):
        @demi.register_pass("test-raise")
        def fail(graph):
            raise RuntimeError("no 100% today")

        @demi.register_pass("test-refused")
        def refused(graph):
            next(graph.nodes).remove()  # its output is read

        for name, text in (("test-raise", "RuntimeError: no 100% today"), ("test-refused", "")):
            with self.assertRaises(demi.DemiError) as caught:
                demi.run_passes(unary("Neg"), name)
            self.assertIn(name, str(caught.exception))
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(demi.UsageError):
            demi.register_pass("test-raise")(fail)  # the name is taken


class Marks(unittest.TestCase):
    def test_a_mark_alone_is_a_change(self) -> None:
        """Of an attribute that is as it was: the file is not the source's bytes all the same."""
        model = unary("Softmax", shape=(1, 2, 3, 4))
        node = model.graph.node[0]
        node.op_type, node.input[:] = "Attention", [node.input[0]] * 3
        model.opset_import[0].version, model.ir_version = 23, 11
        node.metadata_props.add(key="demi.was", value="softmax_precision=")
        made, _ = demi.run_passes(model.SerializeToString(), "strip-casts")
        self.assertFalse(onnx.load_from_string(made).graph.node[0].metadata_props)


class Wrong(unittest.TestCase):
    """Whatever a call is given, it raises an exception or works."""

    def things(self, order):
        return order.choice([
            None, True, -1, 0, 1 << 40, 1.5, float("nan"), "", "x", "float16", "a\0b", "\udcff", b"", b"x",
            b"\x08\x08", [], [None], ["x"], [[]], {}, {"x": None}, {"x": [1, 2]}, {1: 2}, object(), len,
            np.zeros(0), np.ones((2, 3)), np.float32(1), np.array(["s"]), np.array([object()]),
            np.zeros((0, 4), np.float32), np.broadcast_to(np.float32(1), (1, 4)), CONV, "/nowhere",
            "/dev/null", "/", onnx.ModelProto(), unary("Relu"), {"x": np.zeros((1, 4), np.float32)},
            {"x": "x"}, {"x": {"x": 1}}, {"y": np.zeros(3)}, np.zeros((1, 4), np.complex64), ("x", "y"), range(3)])

    def test_fuzz(self):
        number = int(os.environ.get("DEMI_FUZZ_CALLS", "400"))
        order = random.Random(7)
        session = demi.Session(unary("Relu"), threads=1)
        binding = session.io_binding()
        options = ["to", "io", "keep", "keep_ops", "policy", "opset", "verify", "calibrate", "max_error",
                   "inputs", "ranges", "block", "fold", "before", "nothing"]
        calls = {
            "convert": lambda t: demi.convert(t(), **{order.choice(options): t()}),
            "convert-conv": lambda t: demi.convert(CONV, **{order.choice(options): t(),
                                                            order.choice(options): t()}),
            "run": lambda t: session.run(t(), t()), "run-all": lambda t: session.run(None, t()),
            "run-x": lambda t: session.run(None, {"x": t()}),
            "session": lambda t: demi.Session(t()),
            "session-how": lambda t: demi.Session(CONV, **{order.choice(
                ["threads", "numerics", "kernels", "device", "memory_budget", "seed", "data_root"]): t()}),
            "passes": lambda t: demi.run_passes(CONV, t()), "show": lambda t: demi.show(t()),
            "check": lambda t: demi.check(CONV, against=t()), "diff": lambda t: demi.diff(CONV, t()),
            "compare": lambda t: demi.compare(CONV, t(), data=t()),
            "compile": lambda t: demi.compile(t(), numerics=t()),
            "search": lambda t: demi.search(CONV, evaluations=1, **{order.choice(
                ["candidates", "target", "metric", "labels", "cost", "data", "convert"]): t()}),
            "bench": lambda t: demi.bench(CONV, feeds=t(), runs=1),
            "bind": lambda t: (binding.bind_input("x", t()), binding.bind_output("y", t()),
                               session.run_with_iobinding(binding)),
            "register": lambda t: demi.register_pass(t(), options=t())(len),
        }
        raised = 0
        for _ in range(number):
            name = order.choice(list(calls))
            try:
                calls[name](lambda: self.things(order))
            except Exception:
                raised += 1
        self.assertGreater(raised, number // 2)
        x = np.array([[-1, 1, -1, 1]], np.float32)  # all is as it was
        self.assertEqual(session.run(None, {"x": x})[0].tolist(), [[0, 1, 0, 1]])


class Leaks(unittest.TestCase):
    """Conversions and sessions under a limit of memory that a leak would pass."""

    def test_many(self):
        number = int(os.environ.get("DEMI_LEAK_CALLS", "600"))
        data = matmul(128).SerializeToString()  # 64 KiB of weights
        x = np.ones((200, 128), np.float32)

        def once():
            made, _ = demi.convert(data)
            demi.Session(made, threads=1).run(None, {"x": x})
            with self.assertRaises(demi.DemiError):
                demi.convert(data, keep="nobody")
            with self.assertRaises(demi.DemiError):
                demi.Session(b"\x08\x08")

        for _ in range(50):
            once()
        gc.collect()
        pages = lambda: int(open("/proc/self/statm").read().split()[1])  # noqa: E731
        before = pages()
        for _ in range(number):
            once()
        gc.collect()
        grown = (pages() - before) * resource.getpagesize()
        self.assertLess(grown, (4 << 20) + number * 2048, f"{grown} bytes in {number} rounds")
        print(f"{grown} bytes more after {number} rounds", file=sys.stderr)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
    assert ctypes  # what the package stands on
    unittest.main()
