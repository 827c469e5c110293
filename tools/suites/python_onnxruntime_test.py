#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""demi_onnx.onnxruntime beside onnxruntime: the same calls on both give the same, errors' names included; and a
program that imports onnxruntime runs unchanged on demi.

    DEMI_LIBRARY=build/release/libdemi.so tools/suites/python_onnxruntime_test.py
"""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from python_test import ROOT, demi

import demi_onnx.onnxruntime as ours

DemiError = demi.DemiError

BOTH = (onnxruntime, ours)
onnxruntime.set_default_logger_severity(3)
MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17], producer_name: "maker", domain: "here",
        model_version: 3, doc_string: "what it is", metadata_props: ["author": "nobody", "names": "a,b"]>
    net (float[N,3] x, float[3] c) => (float[N,3] y, int64[M] places) <float[3] c = {1, 2, 3}> {
        y = Add (x, c)  p = NonZero (y)  flat = Constant <value_ints = [-1]> ()  places = Reshape (p, flat) }""")
DATA = MODEL.SerializeToString()
X = np.array([[1, -2, 0], [4, 0, -3]], np.float32)


def plain(value: object) -> object:
    """Arrays as their types and numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist()
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def said(call) -> str:
    """What a call raises: the exception's name."""
    try:
        call()
    except Exception as error:  # noqa: BLE001: any is looked at
        return type(error).__name__
    return "nothing"


class Beside(unittest.TestCase):
    def each(self, make) -> None:
        """What both give must be the same."""
        theirs, mine = (make(ort) for ort in BOTH)
        self.assertEqual(plain(theirs), plain(mine))

    def test_names(self) -> None:
        """Those that programs use are in both."""
        used = {"": "InferenceSession SessionOptions RunOptions OrtValue IOBinding ModelMetadata OrtDevice OrtMemType "
                    "GraphOptimizationLevel ExecutionMode ExecutionOrder OrtAllocatorType get_available_providers "
                    "get_all_providers get_device get_build_info get_version_string set_default_logger_severity "
                    "set_default_logger_verbosity set_seed disable_telemetry_events enable_telemetry_events capi "
                    "preload_dlls has_collective_ops __version__",
                "InferenceSession": "run run_async run_with_ort_values run_with_iobinding io_binding get_inputs get_outputs "
                                    "get_overridable_initializers get_modelmeta get_providers set_providers get_session_options "
                                    "get_provider_options disable_fallback enable_fallback end_profiling",
                "IOBinding": "bind_input bind_output bind_cpu_input bind_ortvalue_input bind_ortvalue_output get_outputs "
                             "copy_outputs_to_cpu synchronize_inputs synchronize_outputs clear_binding_inputs "
                             "clear_binding_outputs get_outputs_as_ortvaluevector",
                "OrtValue": "ortvalue_from_numpy ortvalue_from_shape_and_type numpy shape data_ptr data_type device_name "
                            "element_type has_value is_tensor is_tensor_sequence is_sparse_tensor update_inplace"}
        for ort in BOTH:
            for kind, names in used.items():
                for name in names.split():
                    self.assertTrue(hasattr(getattr(ort, kind) if kind else ort, name), f"{ort.__name__} {kind}.{name}")
        theirs, mine = (ort.SessionOptions() for ort in BOTH)
        for name in ("intra_op_num_threads", "inter_op_num_threads", "enable_mem_pattern", "enable_cpu_mem_arena",
                     "enable_mem_reuse", "enable_profiling", "log_severity_level", "log_verbosity_level", "logid",
                     "optimized_model_filepath", "profile_file_prefix", "use_deterministic_compute"):
            self.assertEqual(getattr(theirs, name), getattr(mine, name), name)
        self.assertEqual(int(mine.graph_optimization_level), int(theirs.graph_optimization_level))

    def test_model(self) -> None:
        def tell(ort):
            session = ort.InferenceSession(DATA, providers=["CPUExecutionProvider"])
            args = [[(a.name, a.shape, a.type) for a in getattr(session, get)()]
                    for get in ("get_inputs", "get_outputs", "get_overridable_initializers")]
            meta = session.get_modelmeta()
            return (args, session.get_providers(), session.get_provider_options(), meta.producer_name, meta.domain,
                    meta.version, meta.description, meta.graph_name, sorted(meta.custom_metadata_map.items()))
        self.each(tell)

    def test_runs(self) -> None:
        def tell(ort):
            session = ort.InferenceSession(DATA)
            again = pickle.loads(pickle.dumps(session)) if ort is ours else session
            value = ort.OrtValue.ortvalue_from_numpy(X)
            return (session.run(None, {"x": X}), session.run([], {"x": X}), again.run(["places"], {"x": X}),
                    session.run(["y"], {"x": X, "c": np.zeros(3, np.float32)}), session.run(["y"], {"x": X.tolist()}),
                    [v.numpy() for v in session.run_with_ort_values(["y"], {"x": value})],
                    value.shape(), value.data_type(), value.element_type(), value.device_name(), value.is_tensor())
        self.each(tell)

    def test_bindings(self) -> None:
        def tell(ort):
            session, made = ort.InferenceSession(DATA), np.zeros((2, 3), np.float32)
            binding = session.io_binding()
            binding.bind_cpu_input("x", X)
            binding.bind_output("y", "cpu", 0, np.float32, [2, 3], made.ctypes.data)
            binding.bind_output("places")
            session.run_with_iobinding(binding)
            found = [made.copy(), binding.copy_outputs_to_cpu(), [v.shape() for v in binding.get_outputs()]]
            out = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
            binding.clear_binding_outputs()
            binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(2 * X))
            binding.bind_ortvalue_output("y", out)
            session.run_with_iobinding(binding)
            return [*found, out.numpy()]
        self.each(tell)

    def test_asynchronous(self) -> None:
        def tell(ort):
            done, found = threading.Event(), []
            session = ort.InferenceSession(DATA)
            session.run_async(["y"], {"x": X}, lambda made, data, error: (found.append((made, data, error)), done.set()),
                              "mine")
            self.assertTrue(done.wait(60))
            return found
        self.each(tell)

    def test_sizes_by_name(self) -> None:
        def tell(ort):
            options = ort.SessionOptions()
            options.add_free_dimension_override_by_name("N", 2)
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.intra_op_num_threads = 1
            session = ort.InferenceSession(DATA, options)
            return session.get_inputs()[0].shape, session.get_session_options().intra_op_num_threads
        self.each(tell)

    def test_errors(self) -> None:
        """The same names; a caller may also catch Python's, and demi's."""
        stopped = {ort: ort.RunOptions() for ort in BOTH}
        for options in stopped.values():
            options.terminate = True
        calls = [lambda ort, s: ort.InferenceSession("/nowhere/model.onnx"), lambda ort, s: ort.InferenceSession(b"none"),
                 lambda ort, s: s.run(["z"], {"x": X}) and None, lambda ort, s: s.run(None, {"x": X.astype(np.float64)}),
                 lambda ort, s: s.run(None, {"x": X, "q": X}), lambda ort, s: s.run(None, {"x": X}, stopped[ort])]
        sessions = {ort: ort.InferenceSession(DATA) for ort in BOTH}
        for i, call in enumerate(calls):
            theirs, mine = (said(lambda: call(ort, sessions[ort])) for ort in BOTH)
            self.assertEqual(mine, {"ValueError": "InvalidArgument"}.get(theirs, theirs), i)
        for kind in (ours.NoSuchFile, FileNotFoundError, DemiError):
            self.assertRaises(kind, ours.InferenceSession, "/nowhere/model.onnx")
        self.assertRaises(ValueError, sessions[ours].run, None, {})
        self.assertIs(ours.capi.onnxruntime_pybind11_state.InvalidArgument, ours.InvalidArgument)

    def test_providers(self) -> None:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            listed = ["TensorrtExecutionProvider", ("CUDAExecutionProvider", {"device_id": "0"}), "CPUExecutionProvider"]
            session = ours.InferenceSession(DATA, providers=listed)
        self.assertEqual(session.get_providers()[-1], "CPUExecutionProvider")
        self.assertIn("TensorrtExecutionProvider", str(heard[0].message))
        for wrong in (["Nonsense"], [("CUDAExecutionProvider", {"nonsense": 1})], [("CPUExecutionProvider", {"a": 1})]):
            self.assertEqual(said(lambda: ours.InferenceSession(DATA, providers=wrong)), "InvalidArgument")
        options = ours.SessionOptions()
        options.enable_profiling = True
        self.assertEqual(said(lambda: ours.InferenceSession(DATA, options)), "NotImplemented")

    def test_programs(self) -> None:
        """In onnxruntime's place, for a program and for a module."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program.py"
            program.write_text("import sys\nimport onnxruntime as ort\nfrom onnxruntime import capi\n"
                               "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument\n"
                               "print(ort.get_build_info(), sys.argv[1:], ort.InferenceSession.__module__)\n")
            for words in ([str(program)], ["-m", "program"]):
                done = subprocess.run([sys.executable, "-m", "demi_onnx.onnxruntime", *words, "a", "b"], cwd=folder,
                                      env=os.environ | {"PYTHONPATH": str(ROOT / "tools/python")},
                                      capture_output=True, text=True, check=True)
                self.assertRegex(done.stdout, r"demi .* \['a', 'b'\] demi_onnx.onnxruntime.session")


if __name__ == "__main__":
    unittest.main()
