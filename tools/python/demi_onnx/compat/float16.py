# SPDX-License-Identifier: Apache-2.0
"""onnxconverter_common.float16 by demi: the same functions and arguments.

    from demi_onnx.compat.float16 import convert_float_to_float16

What differs is what demi is for: nodes stay float32 where float16 would be slower, wrong or invalid,
and a constant that float16 can't hold keeps what reads it in float32, where it was clamped there. So
`min_positive_val` and `max_finite_val`, the ends that are clamped to, are refused but for their
defaults. `op_block_list` names what stays float32 beside demi's policy. Shapes are always inferred.
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
            raise UsageError(f"{name} is not heeded: demi clamps no constants",
                             hint="overflow='clamp' of demi_onnx.convert stores float16's largest value")


def _low_names(model: Model, kept: Sequence[str]) -> dict[str, Any]:
    """The float inputs and outputs that are not among these, as options."""
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
        raise ValueError("the model is already of float16 type; give check_fp16_ready=False to convert "
                         "what else it has")


@checked
def convert_float_to_float16(model: Model, min_positive_val: float = _LEAST, max_finite_val: float = _MOST,
                             keep_io_types: bool | Sequence[str] = False,
                             disable_shape_infer: bool = False,
                             op_block_list: Sequence[str] | None = None,
                             node_block_list: Sequence[str] | None = None,
                             check_fp16_ready: bool = True) -> Any:
    """The model in float16, of the kind that was given; that one stays as it is."""
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
    """The same of a file, as an onnx.ModelProto."""
    import onnx
    if not is_path(model_path):
        raise UsageError("model_path is a path")
    made = convert_float_to_float16(model_path, min_positive_val, max_finite_val, keep_io_types)
    proto = onnx.ModelProto()
    proto.ParseFromString(made)
    return proto


__all__ = ["convert_float_to_float16", "convert_float_to_float16_model_path"]
