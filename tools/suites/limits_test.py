# SPDX-License-Identifier: Apache-2.0
"""Time limits and SIGINT end a run inside of a kernel whose work grows faster than its operands.

Each of SLOW is a small model of one kernel that would run for half a minute to hours. With `--time 1`
and demi's own kernels, and each of ONEDNN with oneDNN's where that is installed, it must end with exit code 3 and one line that names the node, after less than
10 s of the processor's time for each thread, that of making inputs included. SIGINT ends one of them as
soon. What depends on constants alone is not computed in advance where it would take as long.

usage: limits_test.py --demi DEMI [--only NAME]
"""

import argparse
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

SECONDS, THREADS = 10.0, 2  # ten times what the limit is
FAITHFUL = ["--numerics", "faithful"]  # convolutions and pools stay as the model has them
GUARD = 40  # seconds of the processor, after which the system ends what does not end itself
HEAD = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 3, "com.microsoft" : 1, "next" : 1]>\n'


def graph(inputs: str, body: str, initializers: str = "", output: str = "y",
          opset: int = 21) -> str:
    weights = f"<{initializers}> " if initializers else ""
    return f"{HEAD.replace('21', str(opset))}g ({inputs}) => ({output}) {weights}{{\n{body}\n}}\n"


def numbers(count: int, text: str) -> str:
    return "[" + ", ".join([text] * count) + "]"


SQUARE = "x = RandomUniform <shape: ints = [2500, 2500], seed: float = 1.0> ()"
LOOP = """y = Loop (n, t, x) <body = b (int64 i, bool go, float[1] v) => (bool go_on, float[1] w) {
    go_on = Identity (go)
    w = Neg (v) }>"""
NODE = "nodes_{}: ints = {}"
SLOW = {
    "NonMaxSuppression": graph(
        "float[1,60000,4] b, float[1,8,60000] s", "y = NonMaxSuppression (b, s, most, iou)",
        "int64[1] most = {60000}, float[1] iou = {0.999}", "int64[N,3] y"),
    "Det": graph("double[5000,5000] x", "y = Det (x)", output="double[] y"),
    "Inverse": graph("float[3500,3500] x", "y = com.microsoft.Inverse (x)"),
    "Einsum": graph("double[3000,3000] a, double[3000,3000] b",
                    'y = Einsum <equation: string = "ij,jk->ik"> (a, b)', output="double[I,K] y"),
    "MatMul": graph("double[3000,3000] a, double[3000,3000] b", "y = MatMul (a, b)",
                    output="double[I,K] y"),
    "MatMul of floats": graph("float[8000,8000] a, float[8000,8000] b", "y = MatMul (a, b)"),
    "Conv": graph("float[1,64,256,256] x, float[64,64,65,65] w",
                  f"y = Conv <pads: ints = {numbers(4, '32')}> (x, w)"),
    "Conv by groups": graph("float[1,2,1500,1500] x, float[2,1,1001,1001] w",
                            f"y = Conv <group: int = 2, pads: ints = {numbers(4, '500')}> (x, w)"),
    "Conv of one axis by groups": graph(
        "float[1,2,1000000] x, float[2,1,500001] w",
        "y = Conv <group: int = 2, pads: ints = [250000, 250000]> (x, w)"),
    "Conv of doubles": graph("double[1,1,1000,1000] x, double[1,1,1001,1001] w",
                             f"y = Conv <pads: ints = {numbers(4, '500')}> (x, w)",
                             output="double[A,B,C,D] y"),
    "ConvInteger": graph("uint8[1,64,256,256] x, int8[64,64,127,127] w",
                         f"y = ConvInteger <pads: ints = {numbers(4, '63')}> (x, w)",
                         output="int32[A,B,C,D] y"),
    "ConvTranspose": graph("float[1,64,200,200] x, float[64,64,63,63] w", "y = ConvTranspose (x, w)"),
    "ConvTranspose of doubles": graph(
        "double[1,512,40,40] x, double[512,64,21,21] w",
        "y = ConvTranspose (x, w)", output="double[A,B,C,D] y"),
    "DeformConv": graph("float[1,256,64,64] x, float[8,256,15,15] w, float[1,450,50,50] o",
                        "y = DeformConv (x, w, o)"),
    "MaxPool": graph("float[1,1,1500,1500] x", "y = MaxPool <kernel_shape: ints = [1001, 1001], "
                     f"pads: ints = {numbers(4, '500')}> (x)"),
    "MaxPool with indices": graph(
        "float[1,1,1500,1500] x", "y, i = MaxPool <kernel_shape: ints = [1001, 1001], "
        f"pads: ints = {numbers(4, '500')}> (x)", output="y, i"),
    "MaxPool of three axes": graph(
        "float[1,1,100,100,100] x", "y = MaxPool <kernel_shape: ints = [61, 61, 61], "
        f"pads: ints = {numbers(6, '30')}> (x)"),
    "AveragePool": graph("float[1,1,1500,1500] x", "y = AveragePool <kernel_shape: ints = "
                         f"[1001, 1001], pads: ints = {numbers(4, '500')}> (x)"),
    "LpPool": graph("float[1,1,1500,1500] x", "y = LpPool <p: int = 3, kernel_shape: ints = "
                    f"[1001, 1001], pads: ints = {numbers(4, '500')}> (x)"),
    "LRN": graph("float[1,40000,32] x", "y = LRN <size: int = 40001> (x)"),
    "Unique": graph("int32[1] x", "w = Expand (x, t)\n"
                    "y = Unique <axis: int = 0> (w)", "int64[2] t = {20000, 8000}",
                    "int32[A,B] y"),
    "TfIdfVectorizer": graph(
        "int64[60000] x", 'y = TfIdfVectorizer <mode: string = "TF", max_gram_length: int = 2, '
        "min_gram_length: int = 1, max_skip_count: int = 60000, ngram_counts: ints = [0, 2], "
        "ngram_indexes: ints = [0, 1, 2], pool_int64s: ints = [0, 1, 0, 1]> (x)"),
    "RegexFullMatch": graph(
        "string[1] x", "\n".join(f"s{i + 1} = StringConcat (s{i}, s{i})" for i in range(22)) +
        '\ny = RegexFullMatch <pattern: string = ".*(.?){1000}"> (s22)',
        output="bool[1] y").replace("s0", "x"),
    "RoiAlign": graph("float[1,16,256,256] x, float[200,4] r", "y = RoiAlign <output_height: int = 64, "
                      "output_width: int = 64, sampling_ratio: int = 64, spatial_scale: float = "
                      "256.0> (x, r, b)", f"int64[200] b = {{{', '.join(['0'] * 200)}}}"),
    "MaxRoiPool": graph(
        "float[1,64,512,512] x, float[1] z", "r = Expand (row, s)\n"
        "y = MaxRoiPool <pooled_shape: ints = [1, 1]> (x, r)",
        "float[1,5] row = {0, 0, 0, 511, 511}, int64[2] s = {20000, 5}"),
    "LinearAttention": graph(
        "float[1,40000,512] q, float[1,40000,512] k, float[1,40000,512] v",
        'y, p = LinearAttention <q_num_heads: int = 1, kv_num_heads: int = 1, '
        'update_rule: string = "linear"> (q, k, v)',
        output="y, p", opset=27),
    "CausalConvWithState": graph("float[1,1,400000] x, float[1,1,400000] w",
                                 "y, p = CausalConvWithState (x, w)", output="y, p", opset=27),
    "LSTM": graph("float[20000,1,64] x, float[1,4096,64] w, float[1,4096,1024] r",
                  "y = LSTM <hidden_size: int = 1024> (x, w, r)"),
    "GRU of two directions": graph(
        "float[1000000,1,1] x, float[2,192,1] w, float[2,192,64] r",
        'y = GRU <hidden_size: int = 64, direction: string = "bidirectional"> (x, w, r)'),
    "SVMRegressor": graph(
        "float[100000,100] x", 'y = ai.onnx.ml.SVMRegressor <kernel_type: string = "RBF", '
        "kernel_params: floats = [0.1, 0.0, 3.0], n_supports: int = 3000, rho: floats = [0.0], "
        f"coefficients: floats = {numbers(3000, '1.0')}, "
        f"support_vectors: floats = {numbers(300000, '0.5')}> (x)"),
    "LinearRegressor": graph(
        "float[100000,100] x", "y = ai.onnx.ml.LinearRegressor <targets: int = 3000, "
        f"coefficients: floats = {numbers(300000, '0.5')}> (x)"),
    "TreeEnsembleRegressor": graph(
        "float[2000000,1] x", "y = ai.onnx.ml.TreeEnsembleRegressor <n_targets: int = 1, " +
        ", ".join(NODE.format(name, [value for i in range(2000) for value in (i if a is None else a
                                                                              for a in row)])
                  for name, row in (("treeids", (None, None, None)), ("nodeids", (0, 1, 2)),
                                    ("featureids", (0, 0, 0)), ("truenodeids", (1, 0, 0)),
                                    ("falsenodeids", (2, 0, 0)))) +
        f", nodes_values: floats = {numbers(6000, '0.5')}, nodes_modes: strings = "
        + "[" + ", ".join(['"BRANCH_LEQ", "LEAF", "LEAF"'] * 2000) + "], target_treeids: ints = "
        + f"{[i for i in range(2000) for _ in range(2)]}, target_nodeids: ints = "
        + f"{[1, 2] * 2000}, target_ids: ints = {[0] * 4000}, target_weights: floats = "
        + f"{numbers(4000, '1.0')}> (x)"),
    "Attention": graph("float[1,1,300000,64] x", "y = Attention (x, x, x)", opset=23),
    "Loop": graph("float[1] x", LOOP, "int64 n = {4611686018427387904}, bool t = {1}"),
    "a kernel in a Loop": graph(
        "float[1] x", LOOP.replace("w = Neg (v)", SQUARE.replace(
            "x =", "s =") + "\nd = com.microsoft.Inverse (s)\nw = ReduceSum <keepdims: int = 0> "
            "(d)\n").replace("float[1] w", "float[] w"),
        "int64 n = {4611686018427387904}, bool t = {1}"),
}

# Of oneDNN's kernels: in pieces, or left to demi's own where a piece would be too large.
ONEDNN = {
    "MatMulInteger": graph("uint8[18000,18000] a, int8[18000,18000] b", "y = MatMulInteger (a, b)",
                           output="int32[A,B] y"),
    "ConvInteger": graph(
        "uint8[1,64,1200,1200] x", f"y = ConvInteger <pads: ints = {numbers(4, '15')}> (x, w)",
        f"int8[64,64,31,31] w = {{{', '.join(['3'] * (64 * 64 * 31 * 31))}}}", "int32[A,B,C,D] y"),
}

# Of constants: the plan is made without computing it.
BOXES = ", ".join(f"{i}, {i}, {i + 1}, {i + 1}" for i in range(60000))  # none overlaps another
CONSTANT = graph("float[1] x", "y = NonMaxSuppression (b, s, most, iou)\nz = Neg (x)",
                 f"float[1,60000,4] b = {{{BOXES}}}, float[1,8,60000] s = "
                 f"{{{', '.join(str(i % 100) for i in range(480000))}}}, "
                 "int64[1] most = {60000}, float[1] iou = {0.999}", "int64[N,3] y, float[1] z")


def measure(words: list[str], interrupt: float = 0) -> tuple[int, str, float]:
    """(exit code, standard error, seconds of the processor) of one run, which gets SIGINT after so long."""
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (GUARD, GUARD))

    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          preexec_fn=bound) as child:
        if interrupt:
            time.sleep(interrupt)
            child.send_signal(signal.SIGINT)
        text = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, text, usage.ru_utime + usage.ru_stime


def judge(demi: str, name: str, text: str, folder: str, kernels: str) -> list[str]:
    """What is wrong with the model's run by kernels of that provider."""
    path = f"{folder}/slow.onnxtxt"
    pathlib.Path(path).write_text(text)
    found = []

    code, said, seconds = measure([demi, "run", path, "--random", "1", "--time", "1", "--quiet",
                                   "--threads", str(THREADS), "--kernels", kernels,
                                   *(FAITHFUL if kernels == "own" and ("groups" in name or "Pool" in name) else [])])
    operator = {"Loop": "Neg|Identity", "a kernel in a Loop": "Inverse"}.get(name, name.split()[0])
    if code != 3 or not re.search(rf"\(({operator})(Last)?\): the run exceeds its time limit\n$", said):
        found.append(f"{name}: exit code {code}: {said[:300]}")
    if seconds > SECONDS * THREADS:
        found.append(f"{name}: {seconds:.1f} s")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demi", required=True)
    parser.add_argument("--only", help="of the models, this one alone")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for kernels, models in (("own", SLOW), ("onednn", ONEDNN)):
            for name, text in models.items():
                if args.only in (None, name, f"{kernels} {name}"):
                    found += judge(args.demi, name, text, folder, kernels)
                    print(kernels, name, flush=True)
        pathlib.Path(f"{folder}/constant.onnxtxt").write_text(CONSTANT)
        for words, made in ((["compile"], "made.plan"), (["simplify", "--inexact"], "made.onnx")):
            code, said, seconds = measure([args.demi, *words, f"{folder}/constant.onnxtxt", "--quiet",
                                           "-o", f"{folder}/{made}"])
            if code != 0 or seconds > SECONDS:
                found.append(f"{words[0]} of constants: exit code {code} after {seconds:.1f} s: {said[:300]}")
        pathlib.Path(f"{folder}/slow.onnxtxt").write_text(SLOW["NonMaxSuppression"])
        code, _, seconds = measure([args.demi, "run", f"{folder}/slow.onnxtxt", "--random", "1"], 1)
        if code != -signal.SIGINT or seconds > SECONDS:
            found.append(f"SIGINT: exit code {code} after {seconds:.1f} s")
    for line in found:
        print(line, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
