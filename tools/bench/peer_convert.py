# SPDX-License-Identifier: Apache-2.0
"""Converts one model to float16 with one of the other converters, its options at their defaults.

    peer_convert.py PEER IN OUT [--io keep|low]    converts
    peer_convert.py PEER --describe                prints its version and operator list as JSON

Run by the Python of the environment that the converter lies in (tools/setup/setup_peers makes
them); it needs nothing else. Exit code 4: the converter is not there. Whatever it raises ends it as
in any script, so that its last line of output says what went wrong.
"""

import argparse
import importlib
import importlib.metadata
import json
import sys

MISSING = 4


def float16_module(module: str, source: str, out: str, keep_io: bool) -> None:
    """Both converters of this interface; ModelProto in, ModelProto out."""
    import onnx
    converter = importlib.import_module(module)
    made = converter.convert_float_to_float16(onnx.load(source), keep_io_types=keep_io)
    onnx.save(made, out)


def onnxconverter_common(source: str, out: str, keep_io: bool) -> None:
    float16_module("onnxconverter_common.float16", source, out, keep_io)


def onnxruntime(source: str, out: str, keep_io: bool) -> None:
    float16_module("onnxruntime.transformers.float16", source, out, keep_io)


def modelopt(source: str, out: str, keep_io: bool) -> None:
    """It reads the file itself, and runs the model on random data to look at its values."""
    import onnx
    from modelopt.onnx.autocast import convert_to_mixed_precision
    onnx.save(convert_to_mixed_precision(source, keep_io_types=keep_io), out)


# By peer: the function, its distribution, where its list of operators that stay float32 lies.
PEERS = {
    "onnxconverter-common": (onnxconverter_common, "onnxconverter-common",
                             ("onnxconverter_common.float16", "DEFAULT_OP_BLOCK_LIST")),
    "onnxruntime": (onnxruntime, "onnxruntime",
                    ("onnxruntime.transformers.float16", "DEFAULT_OP_BLOCK_LIST")),
    "modelopt": (modelopt, "nvidia-modelopt",
                 ("modelopt.onnx.autocast.precisionconverter",
                  "OP_TYPES_NOT_SUPPORTED_IN_LOW_PRECISION")),
}


def describe(distribution: str, module: str, name: str) -> None:
    blocked = sorted(getattr(importlib.import_module(module), name))
    print(json.dumps({"version": importlib.metadata.version(distribution), "blocked": blocked}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("source", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--io", choices=["keep", "low"], default="keep")
    parser.add_argument("--describe", action="store_true")
    args = parser.parse_args()
    convert, distribution, operators = PEERS[args.peer]
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        sys.exit(MISSING)
    if args.describe:
        describe(distribution, *operators)
    elif not args.out:
        parser.error("IN and OUT are needed")
    else:
        convert(args.source, args.out, args.io == "keep")


if __name__ == "__main__":
    main()
