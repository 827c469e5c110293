#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a network of a well-known shape with seeded weights (suites/suite/made_models.py), or of a
kind that is hard to convert (suites/suite/unseen_models.py), with --feeds its inputs too.

    tools/gen/make_models.py resnet50 -o resnet50.onnx
    tools/gen/make_models.py bert -o bert1.onnx --layers 1 --fused-norm
    tools/gen/make_models.py unet_loud -o unet.onnx --feeds inputs.npz
"""

import argparse
import pathlib
import sys

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "suites"))
from suite import made_models, unseen_models


# Names that both have are the well-known ones.
HARD = {name: made for name, made in unseen_models.MODELS.items()
        if name not in made_models.MODELS}


def write(args: argparse.Namespace, model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    onnx.save(model, args.output)
    if args.feeds:
        np.savez(args.feeds, **feeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("name", 
                        choices=sorted(made_models.MODELS) + sorted(HARD))
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=int, metavar="N",
                        help="at most N blocks a stage, layers, or LSTMs")
    parser.add_argument("--small", action="store_true", help="sizes for quick tests")
    parser.add_argument("--fused-norm", action="store_true",
                        help="LayerNormalization as one operator (bert, bert_words, gpt2)")
    parser.add_argument("--feeds", type=pathlib.Path, metavar="NPZ",
                        help="write seeded inputs there")
    args = parser.parse_args()
    if args.name in HARD:
        if args.layers is not None or args.small or args.fused_norm:
            parser.error(f"{args.name} has one size")
        model, feeds = HARD[args.name]()
        write(args, model, feeds(1))
        return
    sizes: dict[str, object] = dict(made_models.SMALL[args.name]) if args.small else {}
    if args.layers is not None:
        if args.layers < 1:
            parser.error("--layers is at least 1")
        sizes["layers"] = args.layers
    if args.fused_norm:
        if args.name not in ("bert", "bert_words", "gpt2"):
            parser.error(f"{args.name} has no LayerNormalization")
        sizes["fused_norm"] = True
    model = made_models.MODELS[args.name](**sizes)
    write(args, model, made_models.feeds_of(model))


if __name__ == "__main__":
    sys.exit(main())
