# SPDX-License-Identifier: Apache-2.0
"""rapidocr 3: reads a page."""

from drawn import page, tell
from rapidocr import RapidOCR

found = RapidOCR()(page())
tell([found.txts, found.scores, found.boxes])
