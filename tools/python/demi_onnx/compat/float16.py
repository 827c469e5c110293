# SPDX-License-Identifier: Apache-2.0
"""The functions and arguments of onnxconverter_common.float16, implemented by demi.

    from demi_onnx.compat.float16 import convert_float_to_float16

Results differ in what demi is for: nodes stay in float32 if float16 would be slower, wrong, or invalid. A
constant that float16 cannot hold keeps its readers in float32, instead of being clamped. The arguments
`min_positive_val` and `max_finite_val`, the limits for clamping, are therefore refused unless they have
their defaults. `op_block_list` names operators to keep in float32 in addition to those of demi's policy.
Shapes are always inferred.
"""

from __future__ import annotations

from typing import Any, Sequence

from .._convert import convert, describe
from .._arguments import checked
from .._errors import UsageError
from .._models import Model, Path, is_path

_LEAST, _MOST = 1e-7, 1e4


def _refuse_bounds(min_positive_val: float, max_finite_val: float) -> None:
    for name, value, default in (("min_positive_val", min_positive_val, _LEAST),
                                 ("max_finite_val", max_finite_val, _MOST)):
        if value != default:
            raise UsageError(f"{name} is not supported: demi does not clamp constants",
                             hint="overflow='clamp' of demi_onnx.convert stores float16's largest value")


def _low_names(model: Model, kept: Sequence[str]) -> dict[str, Any]:
    """Returns options with the float32 inputs and outputs that are not among these."""
    report = describe(model)
    low = [[row.name for row in rows
            if row.text_before.partition("[")[0] == "float" and row.name not in kept]
           for rows in (report.inputs, report.outputs)]
    return {"io": "keep", "low_inputs": low[0] or None, "low_outputs": low[1] or None}


def _options(model: Model, keep_io_types: Any, op_block_list: Sequence[str] | None,
             node_block_list: Sequence[str] | None) -> dict[str, Any]:
    options: dict[str, Any] = {"to": "float16", "allow_unmatched": True}
    if isinstance(keep_io_types, (list, tuple, set)):
        options.update(_low_names(model, list(keep_io_types)))
    else:
        options["io"] = "keep" if keep_io_types else "low"
    if op_block_list:
        options["keep_ops"] = list(op_block_list)
    if node_block_list:
        options["keep"] = [f"name:{name}" for name in node_block_list]
    return options


def _refuse_converted(model: Model) -> None:
    report = describe(model)
    rows = [*report.inputs, *report.outputs]
    if any(row.name == "float16" for row in report.weights) or any(
            row.text_before.startswith("float16") for row in rows):
        raise ValueError("the model already contains float16; pass check_fp16_ready=False to convert "
                         "the rest of it")


@checked
def convert_float_to_float16(model: Model, min_positive_val: float = _LEAST, max_finite_val: float = _MOST,
                             keep_io_types: bool | Sequence[str] = False,
                             disable_shape_infer: bool = False,
                             op_block_list: Sequence[str] | None = None,
                             node_block_list: Sequence[str] | None = None,
                             check_fp16_ready: bool = True) -> Any:
    """Returns the model in float16, with the same type as the argument, which does not change."""
    del disable_shape_infer  # they are always inferred, from the operators' own definitions
    _refuse_bounds(min_positive_val, max_finite_val)
    if check_fp16_ready:
        _refuse_converted(model)
    made, _ = convert(model, **_options(model, keep_io_types, op_block_list, node_block_list))
    return made


@checked
def convert_float_to_float16_model_path(model_path: Path, min_positive_val: float = _LEAST,
                                        max_finite_val: float = _MOST,
                                        keep_io_types: bool | Sequence[str] = False) -> Any:
    """The same for a file; returns an onnx.ModelProto."""
    import onnx
    if not is_path(model_path):
        raise UsageError("model_path must be a path")
    made = convert_float_to_float16(model_path, min_positive_val, max_finite_val, keep_io_types)
    proto = onnx.ModelProto()
    proto.ParseFromString(made)
    return proto


__all__ = ["convert_float_to_float16", "convert_float_to_float16_model_path"]
