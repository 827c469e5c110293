# SPDX-License-Identifier: Apache-2.0
"""rapid-layout: parts of a page."""

from drawn import page, tell
from rapid_layout import RapidLayout

found = RapidLayout(conf_thresh=0.2)(page(900, 640))
tell([found.class_names, found.scores, found.boxes])
