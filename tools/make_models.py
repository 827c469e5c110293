#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a network of a well-known shape with seeded weights (suite/made_models.py).

    tools/make_models.py resnet50 -o resnet50.onnx
    tools/make_models.py bert -o bert1.onnx --layers 1 --fused-norm
"""

import argparse
import pathlib
import sys

import onnx

from suite import made_models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(made_models.MODELS))
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=int, metavar="N",
                        help="at most N blocks a stage, layers, or LSTMs")
    parser.add_argument("--small", action="store_true", help="sizes for quick tests")
    parser.add_argument("--fused-norm", action="store_true",
                        help="LayerNormalization as one operator (bert, gpt2)")
    args = parser.parse_args()
    sizes: dict[str, object] = dict(made_models.SMALL[args.name]) if args.small else {}
    if args.layers is not None:
        if args.layers < 1:
            parser.error("--layers is at least 1")
        sizes["layers"] = args.layers
    if args.fused_norm:
        if args.name not in ("bert", "gpt2"):
            parser.error(f"{args.name} has no LayerNormalization")
        sizes["fused_norm"] = True
    onnx.save(made_models.MODELS[args.name](**sizes), args.output)


if __name__ == "__main__":
    sys.exit(main())
