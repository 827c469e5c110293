# SPDX-License-Identifier: Apache-2.0
"""Models that show each sort of reason, and what their nodes say."""

import dataclasses

from suite.variants import Variant


@dataclasses.dataclass(frozen=True)
class Case:
    title: str
    text: str
    want: dict[str, tuple[str, str]]  # node -> (kind, reason)
    variant: Variant = Variant("float16", "keep")
    options: dict[str, str] = dataclasses.field(default_factory=dict)
    mincut: bool = False


W = "float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}"
BF16 = Variant("bfloat16", "keep")


def model(body: str, opset: int = 17, more: str = "", tail: str = "", io: str = "") -> str:
    """A model of x and c whose weights are w and `more`."""
    weights = f"{W}, {more}" if more else W
    return (f'<ir_version: 8, opset_import: ["" : {opset}, "com.x" : 1]>\n'
            f"g (float[4,4] x, bool c{io}) => (float[4,4] y) <{weights}> {{\n{body}\n}}\n{tail}")


LOW = ("low", "MatMul is a 16-bit operator")

CASES: list[Case] = [
    Case("policy, follows, reads, low", model("""
        m = MatMul (x, w)  e = Exp (m)  r = Relu (e)  a = Add (m, r)  f = Abs (m)
        s = Add (f, a)  y = MatMul (s, w)"""),
         {"m": LOW, "e": ("policy", "Exp is an fp32 operator"),
          "r": ("follows", "follows 'e', which is in float32"),
          "a": ("reads", "reads 'r', which is in float32"),
          "f": ("low", "follows what it reads"), "s": ("reads", "reads 'a', which is in float32")}),
    Case("a condition of the policy", model("""
        m = MatMul (x, w)  d = Div (one, m)  y = MatMul (d, w)""", more="float one = {1}"),
         {"d": ("policy", "divides a constant")}),
    Case("excluded by pattern, by operator, and not among those wanted", model("""
        ["/a/m"] m = MatMul (x, w)  ["/b/m"] n = MatMul (m, w)  y = Abs (n)"""),
         {"/a/m": ("excluded", "kept by '/a/*'"), "/b/m": LOW}, options={"keep": "/a/*"}),
    Case("only some", model('["/a/m"] m = MatMul (x, w)  ["/b/m"] y = MatMul (m, w)'),
         {"/b/m": ("excluded", "not selected by --only"), "/a/m": LOW},
         options={"only": "/a/*"}),
    Case("an excluded fp32 operator is excluded", model("e = Exp (x)  y = MatMul (e, w)"),
         {"e": ("excluded", "kept by 'Exp'")}, options={"keep_ops": "Exp"}),
    Case("illegal, and the first legal opset", model("""
        m = MatMul (x, w)  u = Unsqueeze (m, ax)  v = GlobalMaxPool (u)  t = Squeeze (v)
        k = LeakyRelu (m)  z = Round (m)  y = Mul (z, k)""",
        15, "int64[2] ax = {0, 1}"),
         {"m": LOW, "v": ("illegal", "bfloat16 is illegal for GlobalMaxPool at opset 15; "
                                     "legal from opset 22"),
          "k": ("illegal", "bfloat16 is illegal for LeakyRelu at opset 15; legal from opset 16"),
          "z": ("illegal", "bfloat16 is illegal for Round at opset 15; legal from opset 22")},
          BF16),
    Case("illegal at every opset", model("""
        m = MatMul (x, w)  s = Shrink (m)  y = MatMul (s, w)""", 22),
         {"s": ("illegal", "bfloat16 is illegal for Shrink at every opset")}, BF16),
    Case("an fp32 operator that is illegal too is an fp32 operator", model("""
        m = MatMul (x, w)  s = Elu (m)  y = MatMul (s, w)"""),
         {"s": ("policy", "Elu is an fp32 operator")}, BF16),
    Case("refused by strict inference", model("""
        m = MatMul (x, w)  u = Unsqueeze (m, ax)  v = MeanVarianceNormalization (u)
        t = Squeeze (v, ax)  y = MatMul (t, w)""", more="int64[2] ax = {0, 1}"),
         {"v": ("illegal",
                "MeanVarianceNormalization as a 16-bit operator is refused by strict type "
                "inference: its function body adds a float constant")},
         options={"low_ops": "+MeanVarianceNormalization"}),
    Case("a value, beyond the range and become zero, moved and cast", model("""
        m = MatMul (x, w)  a = Add (m, large)  b = Add (m, small)  k = Reshape (large, shape)
        d = Add (m, k)  e = CastLike (large, m)  f = Mul (m, e)
        s = Sum (a, b, d, f)  y = MatMul (s, w)""",
        more="float large = {100000}, float small = {1e-12}, int64[1] shape = {1}"),
         {"a": ("value", "constant 'large' holds 100000, beyond float16's range"),
          "b": ("value", "constant 'small' is 1e-12, zero in float16"),
          "d": ("value", "constant 'large' holds 100000, beyond float16's range"),
          "e": ("value", "constant 'large' holds 100000, beyond float16's range"),
          "f": ("value", "constant 'large' holds 100000, beyond float16's range")}),
    Case("a LOW operator whose weight does not fit", model("y = MatMul (x, v)",
         more="float[4,1] v = {1, 2, 3, -70000}"),
         {"y": ("value", "constant 'v' holds 70000, beyond float16's range")}),
    Case("a custom operator, and what reads it", model("""
        m = MatMul (x, w)  u = com.x.Own (m)  r = Relu (u)  y = MatMul (r, w)"""),
         {"u": ("unknown", "type unknown: demi does not know com.x.Own"),
          "r": ("unknown", "type unknown: operand 'u'"),
          "y": ("unknown", "type unknown: operand 'r'")}),
    Case("functions called alike and not", model("""
        d = Cast <to = 11> (x)  a = com.x.F (x)  b = com.x.F (d)  e = com.x.G (x)
        y = MatMul (a, e)""", tail="""
<domain: "com.x", opset_import: ["" : 17]> F (i) => (o) { p = Relu (i)  o = MatMul (p, p) }
<domain: "com.x", opset_import: ["" : 17]> G (i) => (j) { q = Exp (i)  j = MatMul (q, q) }
<domain: "com.x", opset_import: ["" : 17]> H (i) => (h) { h = Relu (i) }"""),
         {"a": ("unknown", "type unknown: function F is called with different types"),
          "p": ("unknown", "type unknown: function F is called with different types"),
          "q": ("policy", "Exp is an fp32 operator"),
          "h": ("unknown", "type unknown: function H is never called")}),
    Case("tied: a sequence, and a branch", model("""
        m = MatMul (x, w)  e = Exp (m)  s = SequenceConstruct (m, e)  t = SequenceAt (s, zero)
        y = If (c) <then_branch = p () => (float[4,4] a) { a = MatMul (t, w) },
                    else_branch = q () => (float[4,4] b) { b = Exp (t) }>""",
               more="int64 zero = {0}"),
         {"s": ("reads", "reads 'e', which is in float32"),
          "t": ("tied", "tied to 's': reads 'e', which is in float32"),
          "y": ("reads", "reads 'b', which is in float32"), "a": LOW}),
    Case("tied to what is pinned", model("""
        m = MatMul (x, w)  s = SequenceConstruct (m, m)  [at] t = SequenceAt (s, zero)
        y = MatMul (t, w)""", more="int64 zero = {0}"),
         {"s": ("excluded", "kept by name"), "at": ("tied", "tied to 's': kept by name")},
         options={"keep": "s"}),
    Case("tied to an input that keeps its type", model("""
        s = SequenceAt (q, zero)  y = MatMul (s, w)""", more="int64 zero = {0}",
        io=", seq(float[4,4]) q"), {"s": ("tied", "tied: 'q' keeps its type")}),
    Case("quantized", model("""
        q = QuantizeLinear (x, sc)  d = DequantizeLinear (q, sc)  m = MatMul (d, w)
        y = MatMul (m, w)
        """, more="float sc = {0.5}"),
         {"q": ("policy", "quantized"),
          "d": ("fixed", "its floating-point operands have a fixed type"),
          "m": ("policy", "quantized: it reads DequantizeLinear"), "y": LOW}),
    Case("constants", model("""
        k = Constant <value_float = 2.0> ()  l = Constant <value_float = 3.0> ()
        n = Constant <value_float = 4.0> ()  m = MatMul (x, w)  a = Mul (m, k)  e = Exp (m)
        b = Mul (e, l)  y = Mul (b, n)  """),
         {"k": ("constant", "a constant that is stored in 16-bit"),
          "l": ("constant", "a constant that is read in float32")}),
    Case("a constant moved for fp32", model("""
        t = Transpose (w)  e = Exp (x)  y = Add (e, t)"""),
         {"t": ("constant", "computed from constants that are read in float32")}),
    Case("a function that makes a float and a 16-bit value of nothing", """
<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
g (float[4,4] x) => (float[4,4] y, float[4,4] z) {
    a, b = l.f ()  y = MatMul (x, b)  z = Exp (a)
}
<domain: "l", opset_import: ["" : 17]>
f () => (p, q) {
    k = Constant <value = float[4,4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}> ()
    p = Exp (k)
    q = MatMul (k, k)
}""", {"a": ("low", "follows what it reads"), "y": LOW}),
    Case("has no float32 values", model("i = Cast <to = 7> (x)  j = Add (i, i)  y = Cast <to = 1> (j)"),
         {"i": ("policy", "converts to or from another kind of type"),
          "j": ("no float", "has no float32 values")}),
    Case("deprecated", model("u = Upsample <mode = \"nearest\"> (x, sc)  y = MatMul (u, w)", 10,
                             "float[2] sc = {1, 1}"),
         {"u": ("illegal", "Upsample is deprecated at opset 10")}),
    Case("by cost: what lies between fp32 operators stays", model("""
        e = Exp (x)  r = Transpose (e)  f = Exp (r)  y = MatMul (f, w)"""),
         {"r": ("cheaper", "cheaper in float32: in 16-bit it would cost 8376 bytes more"),
          "f": ("policy", "Exp is an fp32 operator")}, mincut=True),
    Case("by cost: one of two readers", model("""
        m = MatMul (x, w)  r = Relu (m)  e = Exp (r)  f = Log (r)  y = Add (e, f)"""),
         {"r": ("low", "cheaper in 16-bit"), "y": ("reads", "reads 'e', which is in float32")},
         mincut=True),
]
