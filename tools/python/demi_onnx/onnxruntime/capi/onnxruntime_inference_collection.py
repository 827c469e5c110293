# SPDX-License-Identifier: Apache-2.0
"""The module from which some programs import sessions and values."""

from ..session import InferenceSession
from ..values import IOBinding, OrtValue

Session = InferenceSession

__all__ = ["IOBinding", "InferenceSession", "OrtValue", "Session"]
