# SPDX-License-Identifier: Apache-2.0
"""What an installed wheel of demi_onnx must do where nothing but numpy is: the README's ten lines, and the
command. Called with a model's path; prints how long importing took.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

start = time.process_time()
import demi_onnx as demi  # noqa: E402

print(f"import, numpy being there: {1e3 * (time.process_time() - start):.0f} ms of processor time")
assert "site-packages" in demi.__file__, demi.__file__
model = str(pathlib.Path(sys.argv[1]).resolve())
with tempfile.TemporaryDirectory() as folder:
    out = f"{folder}/model.fp16.onnx"
    x = np.random.rand(2, 3, 8, 8).astype(np.float32)
    report = demi.convert(model, out, verify={"x": x})
    print(report, report.why("conv"), sep="\n")
    print(demi.compare(model, out, data={"x": x}))
    y, = demi.Session(out).run(None, {"x": x})
    assert y.shape == (2, 4)
    for command in (["demi"], [sys.executable, "-m", "demi_onnx"]):
        subprocess.run([*command, "convert", model, "-o", f"{folder}/same.onnx", "--quiet"], check=True)
        assert pathlib.Path(out).read_bytes() == pathlib.Path(f"{folder}/same.onnx").read_bytes()
print("demi", demi.__version__, "works on Python", sys.version.split()[0])
