# SPDX-License-Identifier: Apache-2.0
"""The same by another of onnxruntime's names."""

from .onnxruntime_pybind11_state import *  # noqa: F401,F403
