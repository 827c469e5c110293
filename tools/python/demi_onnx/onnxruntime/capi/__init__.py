# SPDX-License-Identifier: Apache-2.0
"""The package where programs find onnxruntime's exceptions."""

from . import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state"]
