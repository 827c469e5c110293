#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models nested as deep as they may be, and deeper, with a stack of 256 KiB: every subcommand ends
with a documented code, and what is within the limits is converted. And models with many of one
thing, where work in the square of their number would take minutes."""

import argparse
import pathlib
import resource
import subprocess
import tempfile

from suite.command import processor_seconds

STACK = 256 * 1024
HEADER = '<ir_version: 10, opset_import: ["" : 21, "c" : 1]>\n'
MAIN = "g (bool k, float[3] x) => (float[3] y)"
MATRIX = MAIN.replace("float[3]", "float[3, 3]")
FUNCTION = '<domain: "c", opset_import: ["" : 21, "c" : 1]>'


def branches(depth: int) -> str:
    """`depth` If nodes, each in a branch of the one before."""
    graph = f"g{depth} () => (float[3] q{depth}) {{ q{depth} = MatMul (x, x) }}"
    for i in range(depth - 1, -1, -1):
        graph = (f"g{i} () => (float[3] q{i}) {{ q{i} = If (k) <then_branch = {graph}, "
                 f"else_branch = "
                 f"e{i} () => (float[3] z{i}) {{ z{i} = Exp (x) }}> }}")
    return (f"{HEADER}{MAIN} {{ y = If (k) <then_branch = {graph}, else_branch = "
            f"e () => (float[3] z) {{ z = Exp (x) }}> }}\n")


def sequences(depth: int) -> str:
    """A type of `depth` sequences."""
    kind = "seq(" * depth + "float" + ")" * depth
    return f"{HEADER}g ({kind} x) => ({kind} y) {{ y = Identity (x) }}\n"


def calls(depth: int, branched: bool = False) -> str:
    """A chain of functions, each calling the next one, directly or within a branch."""
    text = f"{HEADER}{MATRIX} {{ y = c.F0 (k, x) }}\n"
    for i in range(depth):
        body = f"c.F{i + 1} (k, a)" if i < depth - 1 else "MatMul (a, a)"
        if branched:
            body = (f"If (k) <then_branch = t () => (tq) {{ tq = {body} }}, "
                    f"else_branch = e () => (eq) {{ eq = Exp (a) }}>")
        text += f"{FUNCTION} F{i} (k, a) => (b) {{ b = {body} }}\n"
    return text


def call_tree(depth: int) -> str:
    """Functions that call the one before with float, double and again float: 3^depth calls."""
    text = f"{HEADER}{MAIN} {{ y = c.T{depth} (x) }}\n{FUNCTION} T0 (a) => (b) {{ b = Relu (a) }}\n"
    for i in range(1, depth + 1):
        text += (f"{FUNCTION} T{i} (a) => (b) {{ f = Cast <to = 1> (a) d = Cast <to = 11> (a)\n"
                 f"p = c.T{i - 1} (f) q = c.T{i - 1} (d) r = c.T{i - 1} (f)\n"
                 f"e = Cast <to = 1> (q) s = Add (p, e) t = Add (s, r) b = CastLike (t, a) }}\n")
    return text


def many_attributes(count: int) -> str:
    """Calls that differ in an attribute which types depend on, of which there may be a million."""
    text = f"{HEADER}{MAIN} {{\n"
    text += "".join(f"v{i} = c.A <to = {1 + 9 * (i % 2)}, n = {i}> (x)\n" for i in range(count))
    return (text + "y = Relu (v0) }\n" + f"{FUNCTION} A <to, n> (a) => (b) {{ "
            "b = Cast <to : int = @to> (a) }\n")


def many_functions(count: int) -> str:
    """`count` functions and as many calls, one after another."""
    text = f"{HEADER}{MATRIX} {{ v0 = Relu (x)\n"
    text += "".join(f"v{i + 1} = c.F{i} (v{i})\n" for i in range(count))
    text += f"y = Relu (v{count}) }}\n"
    return text + "".join(f"{FUNCTION} F{i} (a) => (b) {{ b = MatMul (a, a) }}\n"
                          for i in range(count))


def queued_loops(count: int) -> str:
    """Loops that start from a constant, each undecided until the one before is decided."""
    text = (f"{HEADER}g (bool k, int64 n, float[3] x) => (float[3] y) "
            f"<float[3] c0 = {{1, 2, 3}}> {{\n"
            "e = Exp (x) m = MatMul (x, x) a0 = Add (e, m)\n")
    for i in range(count):
        text += (f"[n{i}] l{i} = Loop (n, k, c0) "
                 f"<body = b{i} (int64 i{i}, bool c{i}, float[3] s{i}) => "
                 f"(bool d{i}, float[3] t{i}) "
                 f"{{ d{i} = Identity (c{i}) t{i} = Clip (s{i}, a{i}) }}>\n"
                 f"a{i + 1} = Add (l{i}, m)\n")
    return f"{text}y = Relu (a{count}) }}\n"


def many_casts(count: int) -> str:
    """Casts of one value to one type, and back."""
    text = f"{HEADER}{MAIN} {{\n"
    text += "".join(f"a{i} = Cast <to = 10> (x) b{i} = Cast <to = 1> (a{i})\n"
                    for i in range(count))
    return f"{text}y = Sum ({', '.join(f'b{i}' for i in range(count))}) }}\n"


def many_imports(count: int) -> str:
    """As many opset imports, and nodes of the last domain."""
    imports = "".join(f', "d{i}" : 1' for i in range(count))
    return (f'<ir_version: 10, opset_import: ["" : 21{imports}]>\n{MAIN} {{\n'
            + "".join(f"v{i} = d{count - 1}.Op (x)\n" for i in range(count)) + "y = Relu (x) }\n")


def quantized_sums(count: int) -> str:
    """A row of additions, each of whose results is also quantized: no lookup table can be made of any."""
    text = f"{HEADER}{MAIN} <float s = {{0.5}}, uint8 z = {{0}}> {{\nv0 = Exp (x)\n"
    for i in range(count):
        text += (f"v{i + 1} = Add (v{i}, x) q{i} = QuantizeLinear (v{i + 1}, s, z) "
                 f"d{i} = DequantizeLinear (q{i}, s, z)\n")
    return f"{text}y = Sum ({', '.join(f'd{i}' for i in range(count))}) }}\n"


# name: text, and the exit codes of `convert` that are right
MODELS = {
    "branches20": (branches(20), {0}), "branches30": (branches(30), {0}),
    "branches33": (branches(33), {1}), "branches98": (branches(98), {1}),
    "branches3000": (branches(3000), {1}),
    "sequences40": (sequences(40), {1}), "sequences98": (sequences(98), {1}),
    "sequences100000": (sequences(100000), {1}),
    "calls100": (calls(100), {0}), "calls290": (calls(290), {0}), "calls3000": (calls(3000), {1}),
    "branched_calls140": (calls(140, True), {0}), "branched_calls3000": (calls(3000, True), {1}),
    "call_tree": (call_tree(60), {0}), "many_attributes": (many_attributes(20000), {0}),
    "many_functions": (many_functions(30000), {0}),
    "queued_loops": (queued_loops(12000), {0}), "many_casts": (many_casts(20000), {0}),
    "quantized_sums": (quantized_sums(20000), {0}),
    "many_imports": (many_imports(900), {0}), "too_many_imports": (many_imports(1001), {1}),
}
LONGEST_S = 10


def small_stack() -> None:
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, hard))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demi", required=True)
    demi = parser.parse_args().demi
    failures = cases = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, wanted) in MODELS.items():
            source, made = pathlib.Path(folder) / f"{name}.onnxtxt", pathlib.Path(folder) / "o.onnx"
            source.write_text(text)
            made.unlink(missing_ok=True)
            runs = [["convert", source, "-o", made], ["check", source], ["show", source],
                    ["show", "--text", source], ["show", source, "--json"],
                    ["show", "--dot", source],
                    ["compile", source, "-o", pathlib.Path(folder) / "o.plan"],
                    ["opt", source, "--passes", "infer-dtypes,infer-shapes,strip-casts", "-o",
                     pathlib.Path(folder) / "p.onnxtxt"]]
            for i, command in enumerate(runs):
                start = processor_seconds()
                done = subprocess.run([demi, *map(str, command)], capture_output=True, check=False,
                                      stdin=subprocess.DEVNULL, preexec_fn=small_stack)
                took = processor_seconds() - start
                if i == 0 and done.returncode == 0:
                    runs += [["check", made], ["show", "--text", made], ["show", "--stats", made],
                             ["convert", made, "--to", "bfloat16", "-o",
                              pathlib.Path(folder) / "q.onnx"]]
                right = wanted if i == 0 else {0, 1}
                cases += 1
                if done.returncode not in right or took > LONGEST_S:
                    failures += 1
                    print(f"FAIL {name}: demi {command[0]}: exit {done.returncode}, {took:.1f} s: "
                          f"{done.stderr.decode(errors='replace')[:200]}")
    print(f"{cases} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
