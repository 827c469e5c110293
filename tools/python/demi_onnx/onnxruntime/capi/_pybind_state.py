# SPDX-License-Identifier: Apache-2.0
"""The same under another name that onnxruntime has for it."""

from .onnxruntime_pybind11_state import *  # noqa: F401,F403
