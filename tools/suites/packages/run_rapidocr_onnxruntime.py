# SPDX-License-Identifier: Apache-2.0
"""rapidocr-onnxruntime: reads a page."""

from drawn import page, tell
from rapidocr_onnxruntime import RapidOCR

found, _ = RapidOCR()(page())
tell(found)
