# SPDX-License-Identifier: Apache-2.0
"""Small models that ask for huge memory: refused before it is taken.

Each of BOMBS is run, compiled and converted; LIMITS says with which options it is run. A command
must end with 0 or one line that says why not, in less than 0.4 s and 64 MiB; running it must not
succeed. Time is the processor's, and ten times what the slowest takes: other work may be on the
machine, and what shares its processor's parts makes it slow. Bombs take minutes, or all memory.

usage: bomb_test.py --demi DEMI
"""

import argparse
import os
import pathlib
import resource
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS, BYTES = 0.4, 64 << 20
HEAD = '<ir_version: 10, opset_import: ["" : %d]>\n'
TERA = 1 << 40


def constant(*values: int) -> str:
    return f"int64[{len(values)}] s = {{{', '.join(map(str, values))}}}"


def graph(result: str, body: str, initializers: str = "", inputs: str = "float[1] x",
          opset: int = 21) -> str:
    weights = f"<{initializers}> " if initializers else ""
    return f"{HEAD % opset}g ({inputs}) => ({result}) {weights}{{\n{body}\n}}\n"


def doubling(operator: str, count: int) -> str:
    """v0 = x; v1 = f(v0, v0); …: 2^count elements."""
    lines = [operator.format(out=f"v{i + 1}", arg=f"v{i}" if i else "x") for i in range(count)]
    return graph(f"float[N] v{count}", "\n".join(lines))


def calls(depth: int, leaf: str, parameters: str = "", given: str = "", kept: str = "",
          domain: str = "com.x") -> str:
    """F<depth> calls F<depth - 1> twice, and so on: 2^depth leaves. The call gives `given`, which
    functions hand on as `kept`."""
    head = f'<domain: "{domain}", opset_import: ["" : 21, "{domain}" : 1]>'
    text = (f'<ir_version: 10, opset_import: ["" : 21, "{domain}" : 1]>\ng (float[2] x) => '
            f"(float[2] y) {{\ny = {domain}.F{depth} {given} (x)\n}}\n")
    for i in range(depth, 0, -1):
        below = f"{domain}.F{i - 1} {kept}"
        text += f"{head} F{i} {parameters} (a) => (c) {{ b = {below} (a)\nc = {below} (b) }}\n"
    return text + f"{head} F0 {parameters} (a) => (c) {{ {leaf} }}\n"


def many(count: int, line: str, result: str, initializers: str = "") -> str:
    """`count` times the line, all read by one Sum."""
    lines = [line.format(out=f"c{i}") for i in range(count)]
    every = ", ".join(f"c{i}" for i in range(count))
    return graph(result, "\n".join(lines) + f"\ny = Sum ({every})", initializers)


SUMMED = "d = Cast <to: int = 1> (b)\ne = ReduceSum <keepdims: int = 0> (d)\nc = Add (a, e)"
LONG = ", ".join(["7"] * 10000)
BODY = "b (float[2] v) => (float[2] w) {\n" + "\n".join(
    f"w{i + 1} = Neg (w{i})" for i in range(100)).replace("(w0)", "(v)").replace(
        "w100 =", "w =") + "\n}"
BOMBS = {
    "constant of shape": graph("float[N] y", "y = ConstantOfShape (s)", constant(TERA)),
    "constant of shape, many dims": graph("float[A,B,C] y", "y = ConstantOfShape (s)",
                                          constant(1 << 20, 1 << 20, 1 << 20)),
    "a count past 64 bits": graph("float[A,B,C] y", "y = ConstantOfShape (s)",
                                  constant(1 << 31, 1 << 31, 1 << 31)),
    "expand": graph("float[N] y", "y = Expand (x, s)", constant(TERA)),
    "tile": graph("float[N] y", "y = Tile (x, s)", constant(TERA)),
    "pad": graph("float[N] y", "y = Pad (x, s)", constant(TERA, 0)),
    "range": graph("int64[N] y", "y = Range (a, b, c)",
                   f"int64 a = {{0}}, int64 b = {{{TERA}}}, int64 c = {{1}}"),
    "one hot": graph("float[A,B] y", "y = OneHot (s, d, v)",
                     constant(1, 2) + f", int64 d = {{{TERA}}}, float[2] v = {{0, 1}}"),
    "eye": graph("float[A,B] y", "c = ConstantOfShape (s)\ny = EyeLike (c)",
                 constant(1 << 20, 1 << 20)),
    "resize": graph("float[A,B,C,D] y", "y = Resize (x, , , s)",
                    constant(1, 1, 1 << 20, 1 << 20), "float[1,1,2,2] x"),
    "resize by scale": graph("float[A] y", "y = Resize (x, , k)", "float[1] k = {1e12}"),
    "gather of much": graph("float[N] y", "i = ConstantOfShape <value: tensor = int64[1] {0}> (s)\n"
                            "y = Gather (x, i)", constant(TERA)),
    "outer product": graph("float[A,B] y", "c = Expand (x, s)\nr = Transpose (c)\n"
                           "y = MatMul (r, c)", constant(1, 1 << 21)),
    "broadcast": graph("float[A,B] y", "c = Expand (x, s)\nd = Transpose (c)\ny = Add (c, d)",
                       constant(1, 1 << 21)),
    "convolution's pads": graph(
        "float[A,B,C] y", f"y = Conv <pads: ints = [{TERA}, {TERA}]> (x, w)",
        "float[1,1,1] w = {1}", "float[1,1,4] x"),
    "transposed convolution's stride": graph(
        "float[A,B,C] y", f"y = ConvTranspose <strides: ints = [{TERA}]> (x, w)",
        "float[1,1,1] w = {1}", "float[1,1,4] x"),
    "depth of a window": graph("float[N] y", "y = HannWindow (n)", f"int64 n = {{{TERA}}}"),
    "a sequence's items": graph(
        "float[N] y", "q = SplitToSequence <keepdims: int = 1> (c, one)\n"
        "c = ConstantOfShape (s)\ny = ConcatFromSequence <axis: int = 0> (q)".replace(
            "q = SplitToSequence <keepdims: int = 1> (c, one)\nc = ConstantOfShape (s)",
            "c = ConstantOfShape (s)\nq = SplitToSequence (c, one)"),
        constant(TERA) + ", int64 one = {1}"),
    "concat, doubling": doubling("{out} = Concat <axis: int = 0> ({arg}, {arg})", 40),
    "tile, doubling": doubling("two_{out} = Constant <value: tensor = int64[1] {{2}}> ()\n"
                               "{out} = Tile ({arg}, two_{out})", 40),
    "constants, doubling": graph(
        "float[N] v40", "v0 = Constant <value: tensor = float[1] {1}> ()\n" + "\n".join(
            f"v{i + 1} = Concat <axis: int = 0> (v{i}, v{i})" for i in range(40))),
    "open sizes, doubling": doubling("{out} = Concat <axis: int = 0> ({arg}, {arg})", 40).replace(
        "float[1] x", "float[K] x"),
    "calls of calls": calls(30, "c = Neg (a)"),
    "calls of calls that are just refused": calls(16, "c = Neg (a)"),
    "calls of calls without end": calls(3000, "c = Neg (a)"),
    "a list handed to calls": calls(
        13, "b = Constant <value_ints: ints = @p> ()\n" + SUMMED, "<p>",
        f"<p: ints = [{LONG}]>", "<p: ints = @p>"),
    "a list of an inner operator": calls(
        13, "c = com.y.Own <p: ints = @p> (a)", "<p>", f"<p: ints = [{LONG}]>", "<p: ints = @p>"),
    "a tensor handed to calls": calls(
        13, "b = Constant <value: tensor = @p> ()\n" + SUMMED, "<p>",
        f"<p = int64[10000] {{{LONG}}}>", "<p: tensor = @p>"),
    "a graph handed to calls": calls(
        13, "t = Constant <value = bool {1}> ()\nc = If (t) <then_branch: graph = @p, "
        "else_branch: graph = @p>", "<p>",
        "<p = " + BODY.replace("(float[2] v)", "()").replace("(v)", "(x)") + ">",
        "<p: graph = @p>"),
    "a graph that holds what it is given": calls(
        2, "t = Constant <value = bool {1}> ()\nc = If (t) <then_branch: graph = @p, "
        "else_branch: graph = @p>", "<p>",
        "<p = b () => (float[2] w) { t2 = Constant <value = bool {1}> ()\nw = If (t2) "
        "<then_branch: graph = @p, else_branch: graph = @p> }>", "<p: graph = @p>"),
    "a graph that calls what it is given to": graph(
        "float[2] y", "y = com.x.F <p = b () => (float[2] w) { w = com.x.G (x) }> (x)").replace(
            '["" : 21]', '["" : 21, "com.x" : 1]') + """
<domain: "com.x", opset_import: ["" : 21, "com.x" : 1]> F <p> (a) => (c) {
t = Constant <value = bool {1}> ()
c = If (t) <then_branch: graph = @p, else_branch: graph = @p> }
<domain: "com.x", opset_import: ["" : 21, "com.x" : 1]> G (a) => (c) {
c = com.x.F <p = b () => (float[2] w) { w = com.x.G (a) }> (a) }
""",
    "constants computed in advance": many(
        2000, "{out} = ConstantOfShape (s)", "float[N] y", constant(262144)),
    "constants that double": many(
        500, "{out} = Expand (e, s)", "float[N] y", constant(262144) + ", float[1] e = {1}"),
    "a sparse constant": graph(
        "float[N] y", f"c = Constant <sparse_value = sparse_tensor[{1 << 28}] {{float[1] {{1}}, int64[1] {{3}}}}> ()"
        "\ny = Add (x, c)"),
    "a sparse initializer": graph(
        "float[N] y", "y = Add (x, c)", f"sparse_tensor[{1 << 28}] c = {{float[1] {{1}}, int64[1] {{3}}}}"),
    "a loop without end": graph(
        "float[1] y", """y = Loop (n, t, x) <body = b (int64 i, bool go, float[1] v) =>
        (bool go_on, float[1] w) { go_on = Identity (go)
        w = Neg (v) }>""", f"int64 n = {{{1 << 62}}}, bool t = {{1}}"),
    "a loop without end or body": graph(
        "float[1] y", "y = Loop (n, t, x) <body = b (int64 i, bool go, float[1] v) => "
        "(bool go, float[1] v) { }>", f"int64 n = {{{1 << 62}}}, bool t = {{1}}"),
    "branches in a loop without end": graph(
        "float[1] y", """y = Loop (n, t, x) <body = b (int64 i, bool go, float[1] v) =>
        (bool go, float[1] w) { w = If (go) <then_branch = a () => (float[1] v) { },
        else_branch = e () => (float[1] v) { }> }>""", f"int64 n = {{{1 << 62}}}, bool t = {{1}}"),
    "a loop that concatenates": graph(
        "float[N] y", """y = Loop (n, t, x) <body = b (int64 i, bool go, float[M] v) =>
        (bool go_on, float[K] w) { go_on = Identity (go)
        w = Concat <axis: int = 0> (v, v) }>""", "int64 n = {60}, bool t = {1}"),
}
# What nothing tells before it is there: options that say what may be taken on the way.
MEMORY, TIME = ["--memory", "16M"], ["--time", "0.02"]
LIMITS = {"open sizes, doubling": MEMORY, "a loop that concatenates": MEMORY,
          "constants computed in advance": MEMORY, "constants that double": MEMORY,
          "a loop without end": TIME, "a loop without end or body": TIME,
          "branches in a loop without end": TIME}
# What `compile --memory` makes less of: (model, budget, most bytes of the plan; None: refused).
COMPILED = [("constants computed in advance", "256K", 1 << 20),
            ("constants computed in advance", "16M", 8 << 20),
            ("calls of calls that are few", "256M", 1 << 20),
            ("calls of calls that are few", "64K", None)]


def measure(words: list[str]) -> tuple[int, str, float, int]:
    """(exit code, standard error, seconds, most resident bytes) of one run."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 2)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        os.execv(words[0], words)
    os.close(write)
    text = b""
    while piece := os.read(read, 4096):
        text += piece
    os.close(read)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    # what the child had of this program before it became another one is counted as well
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most = usage.ru_maxrss if usage.ru_maxrss > own else 0
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace"), seconds, most * 1024


def judge(demi: str, name: str, path: str, folder: str) -> list[str]:
    found = []
    plan, out = f"{folder}/bomb.plan", f"{folder}/out.onnx"
    limit = LIMITS.get(name, [])
    for words, may_succeed in [(["run", path, "--random", "1", "--threads", "1", *limit], False),
                               (["compile", path, "-o", plan], True),
                               (["convert", path, "-o", out, "--quiet"], True),
                               (["check", path, "--quiet"], True)]:
        code, text, seconds, most = measure([demi, *words])
        what = f"{name}, {words[0]}"
        if code not in ((0, 1, 2, 3) if may_succeed else (1, 2, 3)):
            found.append(f"{what}: exit {code} {text[:200]}")
        if code != 0 and len(text.splitlines()) != 1:
            found.append(f"{what}: {len(text.splitlines())} lines: {text[:300]}")
        if "can't be parsed" in text or "expected" in text and ":" in text and "line" in text:
            found.append(f"{what}: the test's model is wrong: {text[:300]}")
        if seconds > SECONDS:
            found.append(f"{what}: {seconds * 1e3:.0f} ms")
        if most > BYTES:
            found.append(f"{what}: {most / 2**20:.0f} MiB")
        for file in (plan, out):
            if os.path.exists(file) and os.path.getsize(file) > BYTES:
                found.append(f"{what}: wrote {os.path.getsize(file)} bytes")
    return found


FEW = calls(9, "c = Neg (a)")


def judge_compiled(demi: str, folder: str) -> list[str]:
    found = []
    path, plan = f"{folder}/bomb.onnxtxt", f"{folder}/bomb.plan"
    for name, memory, most in COMPILED:
        pathlib.Path(path).write_text(BOMBS.get(name, FEW))
        pathlib.Path(plan).unlink(missing_ok=True)
        code, text, _, _ = measure([demi, "compile", path, "-o", plan, "--memory", memory])
        size = os.path.getsize(plan) if os.path.exists(plan) else None
        good = code == 1 and len(text.splitlines()) == 1 if most is None else (
            code == 0 and size and size < most + (1 << 20))
        if not good:
            found.append(f"{name}, compile --memory {memory}: exit {code}, plan {size}: {text}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", default=str(ROOT / "build/release/demi"))
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in BOMBS.items():
            path = f"{folder}/bomb.onnxtxt"
            for old in pathlib.Path(folder).iterdir():
                old.unlink()
            pathlib.Path(path).write_text(text)
            failures += judge(os.path.abspath(args.demi), name, path, folder)
            if args.verbose:
                print(name, measure([args.demi, "run", path, "--random", "1"]))
        failures += judge_compiled(os.path.abspath(args.demi), folder)
    for line in failures:
        print("FAIL", line)
    print(f"bomb_test: {len(BOMBS)} models, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
