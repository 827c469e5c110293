#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/gen/report_pictures.sh: makes the pictures of the documentation, .github/report.png (the top
# of the page that `demi convert --report` writes of a real model) and .github/drawing.png (a part of
# the same page's drawing, at a layer normalization in float32). Needs build/release/demi, the real
# models (tools/test or tools/quickstart fetch them) and chromium. What they show is the page itself
# as a browser draws it; for the drawing the other sections are hidden.
set -euo pipefail
root=$(cd "$(dirname "$(realpath "$0")")/../.." && pwd)
cd "$root"
model=build/data/models/rapidocr-onnxruntime/ch_PP-OCRv4_rec_infer.onnx
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# shot PAGE WIDTH,HEIGHT PICTURE
shot() {
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=2000 \
        --window-size="$2" --screenshot="$root/.github/$3" "file://$1" >"$folder/log" 2>&1 || {
        cat "$folder/log" >&2
        exit 3
    }
}

build/release/demi convert "$model" -o "$folder/out.onnx" --report "$folder/report.html" --verify random --quiet
sed -i "s|$folder/out.onnx|ch_PP-OCRv4_rec_infer.fp16.onnx|; s|$(dirname "$model")/||" \
    "$folder/report.html"
{
    cat "$folder/report.html"
    cat <<'END'
<script>
for (const part of document.querySelectorAll("main > *"))
  if (!part.contains(at("drawing"))) part.style.display = "none";
document.querySelector("main").style.padding = "12px";
at("drawing").style.height = "560px";
const strip = at("strip").getBoundingClientRect();
at("strip").onclick({ clientX: strip.left + 0.738 * strip.width });
</script>
END
} >"$folder/drawing.html"
shot "$folder/report.html" 960,905 report.png
shot "$folder/drawing.html" 960,772 drawing.png
ls -l .github/*.png
