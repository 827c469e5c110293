# SPDX-License-Identifier: Apache-2.0
"""ddddocr: reads a line, and finds where text is."""

import cv2
from drawn import page, tell
from ddddocr import DdddOcr

image = page()
line = cv2.imencode(".png", image[15:65, 20:340])[1].tobytes()
whole = cv2.imencode(".png", image)[1].tobytes()
tell([DdddOcr(show_ad=False).classification(line), DdddOcr(show_ad=False, beta=True).classification(line),
      DdddOcr(det=True, ocr=False, show_ad=False).detection(whole)])
