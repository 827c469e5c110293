# SPDX-License-Identifier: Apache-2.0
"""Models whose training gradient_test.py follows: text, and the shapes of their parameters."""

LENET = """
    lenet (double[N, 1, 10, 10] image, int64[N] label) => (double loss) {
      c1 = Conv <pads = [1, 1, 1, 1]> (image, w1, b1)
      r1 = Relu (c1)
      p1 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r1)
      c2 = Conv (p1, w2, b2)
      n2 = BatchNormalization <training_mode = 1> (c2, s2, h2, mean, var)
      r2 = Tanh (n2)
      p2 = AveragePool <kernel_shape = [2, 2]> (r2)
      f = Flatten (p2)
      g3 = Gemm <transB = 1> (f, w3, b3)
      r3 = LeakyRelu (g3)
      g4 = Gemm (r3, w4, b4)
      loss = SoftmaxCrossEntropyLoss (g4, label)
    }"""
LENET_SHAPES = {"w1": (3, 1, 3, 3), "b1": (3,), "w2": (4, 3, 3, 3), "b2": (4,), "s2": (4,),
                "h2": (4,), "w3": (6, 16), "b3": (6,), "w4": (6, 5), "b4": (5,)}

TRANSFORMER = """
    transformer (int64[N, 4] token, int64[N, 4] label) => (double loss) {
      e = Gather (table, token)
      x = Add (e, places)
      n1 = LayerNormalization (x, s1, h1)
      q = MatMul (n1, wq)
      k = MatMul (n1, wk)
      v = MatMul (n1, wv)
      qh = Reshape (q, heads)
      kh = Reshape (k, heads)
      vh = Reshape (v, heads)
      qt = Transpose <perm = [0, 2, 1, 3]> (qh)
      kt = Transpose <perm = [0, 2, 3, 1]> (kh)
      vt = Transpose <perm = [0, 2, 1, 3]> (vh)
      s = MatMul (qt, kt)
      m = Add (s, causal)
      a = Softmax (m)
      o = MatMul (a, vt)
      ot = Transpose <perm = [0, 2, 1, 3]> (o)
      of = Reshape (ot, flat)
      op = MatMul (of, wo)
      x2 = Add (x, op)
      n2 = LayerNormalization (x2, s2, h2)
      u = MatMul (n2, wu)
      ub = Add (u, bu)
      ug = Gelu (ub)
      d = MatMul (ug, wd)
      x3 = Add (x2, d)
      l = MatMul (x3, wl)
      lt = Transpose <perm = [0, 2, 1]> (l)
      loss = SoftmaxCrossEntropyLoss (lt, label)
    }"""
TRANSFORMER_SHAPES = {
    "table": (7, 6), "places": (4, 6), "s1": (6,), "h1": (6,), "wq": (6, 6), "wk": (6, 6),
    "wv": (6, 6), "wo": (6, 6), "s2": (6,), "h2": (6,), "wu": (6, 8), "bu": (8,), "wd": (8, 6),
    "wl": (6, 7)}


DETECTOR = """
    detector (double[N, 2, H, W] image, double[N, 1, H, W] target) => (double loss) {
      c1 = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (image, w1, b1)
      r1 = HardSwish (c1)
      c2 = Conv <group = 4, pads = [1, 1, 1, 1]> (r1, w2)
      c3 = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (c2, w3, b3)
      m3 = GlobalAveragePool (c3)
      e3 = Conv (m3, w4)
      g3 = Sigmoid (e3)
      s3 = Mul (c3, g3)
      u3 = Resize <mode = "nearest"> (s3, , scales)
      f = Concat <axis = 1> (u3, c2)
      t = ConvTranspose <strides = [2, 2]> (f, w5, b5)
      p = Sigmoid (t)
      e = Sub (p, target)
      q = Mul (e, e)
      m = ReduceMean <keepdims = 0> (q)
      loss = Mul (m, weight)
    }"""
DETECTOR_SHAPES = {"w1": (4, 2, 3, 3), "b1": (4,), "w2": (4, 1, 3, 3), "w3": (6, 4, 3, 3), "b3": (6,),
                   "w4": (6, 6, 1, 1), "w5": (10, 1, 2, 2), "b5": (1,)}
