# SPDX-License-Identifier: Apache-2.0
"""demi_onnx on a CUDA device: inputs and outputs in its memory, the caller's stream, runs that are started
and waited for, what is counted, and what is refused.

On the fake device (tools/fake_cuda, named in LD_LIBRARY_PATH), which ends the process with an error where
something is not given back.

    DEMI_LIBRARY=build/release/libdemi.so LD_LIBRARY_PATH=build/release/fake_cuda tools/suites/python_cuda_test.py
"""

import ctypes
import gc
import os
import pathlib
import pickle
import sys
import unittest

import ml_dtypes
import numpy as np
from onnx import parser

from suite.cuda_driver import Driver

ROOT = pathlib.Path(__file__).resolve().parents[2]
if "DEMI_LIBRARY" in os.environ:
    sys.path.insert(0, str(ROOT / "tools/python"))

import demi_onnx as demi  # noqa: E402

RUNS = 4
X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7 - 1


def model(body: str = "a = Softmax (x) y = Mul (a, x)", of: str = "float") -> bytes:
    text = f'<ir_version: 10, opset_import: ["" : 21]> g ({of}[n,4] x) => ({of}[n,4] y) {{ {body} }}'
    return parser.parse_model(text).SerializeToString()


class Interface:
    """A tensor as cupy and numba give theirs."""

    def __init__(self, pointer: int, like: np.ndarray, stream: int | None = None,
                 strides: tuple[int, ...] | None = None, read_only: bool = False, mask: object = None) -> None:
        self.__cuda_array_interface__ = {"version": 3, "shape": like.shape, "typestr": like.dtype.str,
                                         "data": (pointer, read_only), "strides": strides, "stream": stream,
                                         "mask": mask}


class Capsules:
    """A tensor as torch gives its, with the streams that it was asked for and what was given back."""

    NAME = b"dltensor"
    KINDS = {"float32": (2, 32), "bfloat16": (4, 16), "int64": (0, 64)}
    KEPT: list["Capsules"] = []  # a capsule may outlive its maker, whose memory and function it calls at its end

    class Managed(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("device", ctypes.c_int32),
                    ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                    ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                    ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]

    def __init__(self, pointer: int, like: np.ndarray, offset: int = 0,
                 strides: tuple[int, ...] | None = None, device: int = 0, said: int | None = None) -> None:
        self.said = device if said is None else said  # of __dlpack_device__
        self.streams: list[int] = []
        self.ended = 0
        self.shape = (ctypes.c_int64 * like.ndim)(*like.shape)
        self.strides = (ctypes.c_int64 * like.ndim)(*strides) if strides else None
        code, bits = self.KINDS[str(like.dtype)]
        self.managed = self.Managed(pointer - offset, 2, device, like.ndim, code, bits, 1, self.shape,
                                    self.strides, offset)
        self.end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._end)
        self.KEPT.append(self)

    def _end(self, _: int) -> None:
        self.ended += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.said

    def __dlpack__(self, stream: int | None = None) -> object:
        self.streams.append(stream)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), self.NAME, ctypes.cast(self.end, ctypes.c_void_p))


class Since10(Capsules):
    """As DLPack 1.0 has them, with flags."""

    NAME = b"dltensor_versioned"
    READ_ONLY, IS_COPIED = 1, 2

    def __init__(self, pointer: int, like: np.ndarray, flags: int = 0) -> None:
        super().__init__(pointer, like)
        tensor = self.Managed

        class Managed(ctypes.Structure):
            _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p),
                        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", tensor)]

        self.managed = Managed((1, 0), None, None, flags, self.managed)

    def __dlpack__(self, stream: int | None = None, max_version: tuple[int, int] | None = None) -> object:
        assert max_version == (1, 0)
        return super().__dlpack__(stream)


class OnDevice(unittest.TestCase):
    def setUp(self) -> None:
        self.driver = Driver()

    def tearDown(self) -> None:
        gc.collect()  # contexts end before their stream
        self.driver.end()

    def there(self, array: np.ndarray) -> int:
        """Memory that is about to hold it: the copy is in the stream."""
        address = self.driver.room(array.nbytes)
        self.driver.send(address, array)
        return address

    def placed(self, array: np.ndarray) -> int:
        """Memory that holds it."""
        address = self.there(array)
        self.driver.call("cuStreamSynchronize", self.driver.stream)
        return address

    def fetch(self, address: int, like: np.ndarray) -> np.ndarray:
        return self.driver.fetch(np.empty_like(like), address)


class Memory(OnDevice):
    def session(self, data: bytes | None = None, **how: object) -> demi.Session:
        return demi.Session(data or model(), device="cuda", device_stream=self.driver.stream.value, **how)

    def wanted(self, x: np.ndarray, data: bytes | None = None) -> np.ndarray:
        return demi.Session(data or model()).run(None, {"x": x})[0]

    def bound(self, make: object) -> demi.DeviceCounts:
        """What `make` gives of addresses is read and written by runs, without a copy."""
        session = self.session()
        binding = session.io_binding()
        x, y = self.there(X), self.driver.room(X.nbytes)
        given = make(y, X)
        binding.bind_input("x", make(x, X))
        binding.bind_output("y", given)
        for k in range(RUNS):
            self.driver.send(x, X - k)
            session.run_with_iobinding(binding)
            np.testing.assert_allclose(self.fetch(y, X), self.wanted(X - k), 1e-5)
            self.assertIs(binding.get_outputs()[0], given)
        return binding.device_counts()

    def test_pointers(self) -> None:
        counts = self.bound(lambda at, like: demi.DeviceArray(at, like.shape, like.dtype))
        self.assertEqual((counts.uploads, counts.downloads, counts.replays), (0, 0, RUNS - 1))
        self.assertGreater(counts.launches, 0)

    def test_interface(self) -> None:
        stream = self.driver.stream.value
        for of in (None, stream):
            counts = self.bound(lambda at, like, of=of: Interface(at, like, of))
            self.assertEqual((counts.uploads, counts.downloads), (0, 0))

    def test_dlpack(self) -> None:
        made: list[Capsules] = []

        def make(at: int, like: np.ndarray) -> Capsules:
            made.append(Capsules(at, like, offset=64))
            return made[-1]

        counts = self.bound(make)
        self.assertEqual((counts.uploads, counts.downloads), (0, 0))
        gc.collect()
        for capsules in made:
            self.assertEqual(set(capsules.streams), {self.driver.stream.value})
            self.assertEqual(capsules.ended, len(capsules.streams))

    def test_bfloat16(self) -> None:
        data, x = model("y = Abs (x)", "bfloat16"), X.astype(ml_dtypes.bfloat16)
        session = self.session(data)
        for make in (Capsules, lambda at, like: demi.DeviceArray(at, like.shape, "bfloat16")):
            binding = session.io_binding()
            at = self.driver.room(x.nbytes)
            binding.bind_input("x", make(self.there(x), x))
            binding.bind_output("y", make(at, x))
            session.run_with_iobinding(binding)
            np.testing.assert_array_equal(self.fetch(at, x), np.abs(x))

    def test_feeds(self) -> None:
        """Of run itself, by turns with arrays, whose results are the caller's arrays."""
        session, x = self.session(), self.there(X)
        for k in range(RUNS):
            fed = demi.DeviceArray(x, X.shape, X.dtype) if k % 2 else X * 2
            y, = session.run(None, {"x": fed})
            np.testing.assert_allclose(y, self.wanted(X if k % 2 else X * 2), 1e-5)
        counts = session.device_counts()
        self.assertEqual((counts.uploads, counts.downloads), (RUNS // 2, RUNS))

    def test_bound_anew(self) -> None:
        """From the device to an array, and to another place there."""
        session = self.session()
        binding, y = session.io_binding(), np.zeros_like(X)
        first, second = self.driver.room(X.nbytes), self.driver.room(X.nbytes)
        binding.bind_input("x", X)
        for place in (demi.DeviceArray(first, X.shape, "float32"), y, None,
                      demi.DeviceArray(second, X.shape, "float32")):
            binding.bind_output("y", place)
            session.run_with_iobinding(binding)
            if isinstance(place, demi.DeviceArray):
                got = self.fetch(place.pointer, X)
                self.driver.send(place.pointer, np.zeros_like(X))
            else:
                got = binding.get_outputs()[0]
            np.testing.assert_allclose(got, self.wanted(X), 1e-5)
        np.testing.assert_array_equal(self.fetch(first, X), 0)

    def test_start(self) -> None:
        """What comes later in the stream finds the results; arrays are there after wait."""
        session = self.session()
        binding, y = session.io_binding(), np.zeros_like(X)
        x, z = self.there(X), self.driver.room(X.nbytes)
        binding.bind_input("x", demi.DeviceArray(x, X.shape, X.dtype))
        for k in range(RUNS):
            binding.bind_output("y", y if k % 2 else demi.DeviceArray(z, X.shape, X.dtype))
            self.driver.send(x, X + k)
            binding.start()
            self.assertEqual(binding.get_outputs(), [])
            if k == 2:
                binding.start()
            if not k % 2:
                np.testing.assert_allclose(self.fetch(z, X), self.wanted(X + k), 1e-5)
            binding.wait()
            if k % 2:
                np.testing.assert_allclose(y, self.wanted(X + k), 1e-5)
                self.assertIs(binding.get_outputs()[0], y)
            binding.wait()
        binding.start()  # and is never waited for
        del binding

    def test_start_on_the_processor(self) -> None:
        binding = demi.Session(model()).io_binding()
        binding.bind_input("x", X)
        binding.bind_output("y")
        binding.start()
        binding.wait()
        np.testing.assert_array_equal(binding.get_outputs()[0], self.wanted(X))
        self.assertEqual(binding.device_counts(), demi.DeviceCounts())

    def test_streams(self) -> None:
        """Of whatever has one; the default stream is one, too."""
        class Torch:
            cuda_stream = self.driver.stream.value

        class Cupy:
            ptr = self.driver.stream.value

        class Protocol:
            def __cuda_stream__(inner) -> tuple[int, int]:  # noqa: N805
                return 0, self.driver.stream.value

        for stream in (Torch(), Cupy(), Protocol()):
            session = demi.Session(model(), device="cuda", device_stream=stream)
            y, = session.run(None, {"x": demi.DeviceArray(self.there(X), X.shape, X.dtype)})
            np.testing.assert_allclose(y, self.wanted(X), 1e-5)
        from demi_onnx import _device
        self.assertEqual([_device.stream_of(s) for s in (None, 0, 1, 77)], [None, 1, 1, 77])

    def test_graph(self) -> None:
        for graph in (True, False):
            session = self.session(device_graph=graph)
            for _ in range(RUNS):
                session.run(None, {"x": X})
            self.assertEqual(session.device_counts().replays, RUNS - 1 if graph else 0)

    def test_pickled(self) -> None:
        """A stream is this process's alone: the copy has one of its own."""
        session = pickle.loads(pickle.dumps(self.session(device_graph=False)))
        for _ in range(3):
            np.testing.assert_allclose(session.run(None, {"x": X})[0], self.wanted(X), 1e-5)
        self.assertEqual(session.device_counts().replays, 0)


class Refused(OnDevice):
    def refused(self, words: str, use: object) -> None:
        with self.assertRaisesRegex(demi.UsageError, words):
            use()

    def test_inputs(self) -> None:
        session, at = demi.Session(model(), device="cuda"), self.driver.room(X.nbytes)
        for words, x in (("contiguous", Interface(at, X, strides=(4, 12))),
                         ("contiguous", Capsules(at, X, strides=(1, 3))),
                         ("different stream", Interface(at, X, stream=at)),
                         ("type", demi.DeviceArray(at, X.shape, np.int32)),
                         ("rank|axes|shape", demi.DeviceArray(at, (12,), X.dtype)),
                         ("no memory", demi.DeviceArray(0, X.shape, X.dtype)),
                         ("aligned", demi.DeviceArray(at + 1, X.shape, X.dtype))):
            with self.subTest(words):
                self.refused(words, lambda x=x: session.run(None, {"x": x}))
        np.testing.assert_allclose(session.run(None, {"x": X})[0],
                                   demi.Session(model()).run(None, {"x": X})[0], 1e-5)

    def test_outputs(self) -> None:
        session, at = demi.Session(model(), device="cuda"), self.driver.room(X.nbytes)
        binding = session.io_binding()
        binding.bind_input("x", X)
        self.refused("array of float32", lambda: binding.bind_output(
            "y", demi.DeviceArray(at, X.shape, np.float16)))
        binding.bind_output("y", demi.DeviceArray(at, (4, 3), X.dtype))
        self.refused(r"shape \(3, 4\)", lambda: session.run_with_iobinding(binding))
        binding.bind_output("y", demi.DeviceArray(at, (2, 4), X.dtype))
        self.refused("larger than the memory", lambda: session.run_with_iobinding(binding))

    def test_others(self) -> None:
        at = self.driver.room(X.nbytes)
        there = demi.DeviceArray(at, X.shape, X.dtype)
        processor = demi.Session(model())
        binding = processor.io_binding()
        for make in (lambda: there, lambda: Interface(at, X), lambda: Capsules(at, X), lambda: Since10(at, X)):
            self.refused("input 'x': .*CPU", lambda: processor.run(None, {"x": make()}))
            self.refused("output 'y': .*CPU", lambda: binding.bind_output("y", make()))
        self.refused("device_stream: .*CUDA stream", lambda: demi.Session(model(), device="cuda", device_stream="s"))
        self.refused("dtype: .*element type", lambda: demi.DeviceArray(at, X.shape, "float7"))
        self.refused("shape: .*negative", lambda: demi.DeviceArray(at, (-1, 4), X.dtype))

    def test_read_only(self) -> None:
        """Is read, and refused where a run would write."""
        session, wanted = demi.Session(model(), device="cuda"), demi.Session(model()).run(None, {"x": X})[0]
        binding, at = session.io_binding(), self.placed(X)
        for there in (Interface(at, X, read_only=True), Since10(at, X, Since10.READ_ONLY),
                      Since10(at, X, Since10.IS_COPIED)):
            np.testing.assert_allclose(session.run(None, {"x": there})[0], wanted, 1e-5)
            self.refused("output 'y': .*writable", lambda: binding.bind_output("y", there))
        binding.bind_output("y", Since10(at, X))
        locked = X.copy()
        locked.flags.writeable = False
        for array in (locked, X[:, ::-1], X[::-1], np.broadcast_to(X[:1], X.shape), np.asfortranarray(X),
                      np.ma.masked_array(X.copy(), X > 0), X.astype(np.float64), X.tolist()):
            for device in ("cpu", "cuda"):
                other = demi.Session(model(), device=device).io_binding()
                self.refused("output 'y': .*writable", lambda: other.bind_output("y", array))

    def test_masks(self) -> None:
        """What is hidden has no value: a mask is refused, by itself and in an interface."""
        session, at = demi.Session(model(), device="cuda"), self.placed(X)
        hidden = np.ma.masked_array(X, X > 0)
        self.refused("input 'x': .*mask", lambda: session.run(None, {"x": Interface(at, X, mask=hidden)}))
        for device in ("cpu", "cuda"):
            both = demi.Session(model(), device=device)
            self.refused("input 'x': .*mask", lambda: both.run(None, {"x": hidden}))
            wanted = both.run(None, {"x": X})[0]
            np.testing.assert_array_equal(both.run(None, {"x": np.ma.masked_array(X)})[0], wanted)
            np.testing.assert_array_equal(both.run(None, {"x": X[::-1, ::-1]})[0],
                                          both.run(None, {"x": X[::-1, ::-1].copy()})[0])

    def test_strides(self) -> None:
        session, at = demi.Session(model(), device="cuda"), self.placed(X)
        for there in (Interface(at + 44, X, strides=(-16, -4)), Interface(at + 32, X, strides=(-16, 4)),
                      Interface(at, X, strides=(0, 4)), Capsules(at + 12, X, strides=(4, -1))):
            self.refused("input 'x': .*contiguous", lambda: session.run(None, {"x": there}))
        same = Interface(at, X, strides=(16, 4)), Capsules(at, X, strides=(4, 1))
        for there in same:
            np.testing.assert_allclose(session.run(None, {"x": there})[0],
                                       demi.Session(model()).run(None, {"x": X})[0], 1e-5)


class AnotherDevice(OnDevice):
    """Memory of the second of two devices."""

    def setUp(self) -> None:
        super().setUp()
        self.first, self.driver = self.driver, Driver(1)
        self.at = self.placed(X)

    def tearDown(self) -> None:
        super().tearDown()
        self.driver = self.first
        super().tearDown()

    def all_forms(self) -> list[object]:
        return [demi.DeviceArray(self.at, X.shape, X.dtype), Interface(self.at, X), Capsules(self.at, X, device=1)]

    def test_inputs(self) -> None:
        """Refused by sessions of the first, and taken by those of the second."""
        wanted = demi.Session(model()).run(None, {"x": X})[0]
        first, second = (demi.Session(model(), device=device) for device in ("cuda", "cuda:1"))
        for x in self.all_forms():
            with self.assertRaisesRegex(demi.UsageError, "input 'x': .*cuda:0.*cuda:1|input 'x': .*cuda:1.*cuda:0"):
                first.run(None, {"x": x})
            self.assertEqual(getattr(x, "streams", []), [])  # it was not made to wait for another device's
            np.testing.assert_allclose(second.run(None, {"x": x})[0], wanted, 1e-5)
        lies = Capsules(self.at, X, device=1, said=0)
        with self.assertRaisesRegex(demi.UsageError, "input 'x': .*cuda:1"):
            first.run(None, {"x": lies})
        np.testing.assert_allclose(first.run(None, {"x": X})[0], wanted, 1e-5)

    def test_outputs(self) -> None:
        wanted = demi.Session(model()).run(None, {"x": X})[0]
        for y in self.all_forms():
            binding = (session := demi.Session(model(), device="cuda:0")).io_binding()
            binding.bind_input("x", X)
            with self.assertRaisesRegex(demi.UsageError, "output 'y': .*cuda:0.*cuda:1|output 'y': .*cuda:1.*cuda:0"):
                binding.bind_output("y", y)
                session.run_with_iobinding(binding)
            binding = (session := demi.Session(model(), device="cuda:1")).io_binding()
            binding.bind_input("x", X)
            binding.bind_output("y", y)
            session.run_with_iobinding(binding)
            np.testing.assert_allclose(self.fetch(self.at, X), wanted, 1e-5)

    def test_of_onnxruntime(self) -> None:
        """The same by its names: values, and addresses."""
        import demi_onnx.onnxruntime as ours
        session = ours.InferenceSession(model(), providers=[("CUDAExecutionProvider", {"device_id": 0})])
        value = ours.OrtValue.from_dlpack(Capsules(self.at, X, device=1))
        for bind in (lambda b: b.bind_ortvalue_input("x", value),
                     lambda b: b.bind_input("x", "cuda", 1, np.float32, X.shape, self.at)):
            binding = session.io_binding()
            bind(binding)
            binding.bind_output("y")
            with self.assertRaisesRegex(ours.InvalidArgument, "input 'x': .*cuda"):
                session.run_with_iobinding(binding)

    def test_the_hosts(self) -> None:
        """An address that no device has."""
        session = demi.Session(model(), device="cuda")
        with self.assertRaisesRegex(demi.UsageError, "input 'x': .*does not know"):
            session.run(None, {"x": demi.DeviceArray(X.ctypes.data, X.shape, X.dtype)})
        binding = session.io_binding()
        binding.bind_input("x", X)
        binding.bind_output("y", demi.DeviceArray(np.zeros(12, np.float32).ctypes.data, X.shape, X.dtype))
        with self.assertRaisesRegex(demi.UsageError, "output 'y': .*does not know"):
            session.run_with_iobinding(binding)



if __name__ == "__main__":
    unittest.main()
