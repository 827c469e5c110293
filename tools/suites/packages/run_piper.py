# SPDX-License-Identifier: Apache-2.0
"""piper-tts: vowels of Arabic and Hebrew text."""

from drawn import tell
from piper.hebrew import NakdimonDiacritizer
from piper.tashkeel import TashkeelDiacritizer

ARABIC = "السلام عليكم ورحمة الله وبركاته"
HEBREW = "שלום עולם, מה שלומך היום"
tell([TashkeelDiacritizer().diacritize(ARABIC), TashkeelDiacritizer()(ARABIC, 0.8), NakdimonDiacritizer().diacritize(HEBREW)])
