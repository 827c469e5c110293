# SPDX-License-Identifier: Apache-2.0
"""magika: kinds of files by their contents."""

from drawn import tell
from magika import Magika

SAMPLES = [b"#!/bin/sh\nset -e\nfor f in *; do echo \"$f\"; done\n", b"import os\n\n\ndef main():\n    print(os.getcwd())\n",
           b"<!DOCTYPE html><html><head><title>t</title></head><body><p>x</p></body></html>",
           b"{\"a\": [1, 2, 3], \"b\": null}\n" * 9, b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n" * 4, bytes(range(256)) * 8,
           b"#include <stdio.h>\nint main(void) { return printf(\"x\") < 0; }\n"]
magika = Magika()
results = magika.identify_bytes
tell([[(r := results(sample)).output.label, r.score] for sample in SAMPLES])
