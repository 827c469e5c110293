# SPDX-License-Identifier: Apache-2.0
"""Where some programs take sessions and values from."""

from ..session import InferenceSession
from ..values import IOBinding, OrtValue

Session = InferenceSession

__all__ = ["IOBinding", "InferenceSession", "OrtValue", "Session"]
