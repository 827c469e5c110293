# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime's domain com.microsoft that demi knows: the onnx package does not have
their definitions, which are written down here from that runtime's own. Others of the domain are
somebody's own operators, as those of any domain that is not published."""

import onnx.defs

OpSchema = onnx.defs.OpSchema
DOMAIN = "com.microsoft"
FLOATS = ["tensor(float)", "tensor(float16)", "tensor(bfloat16)"]


def schemas() -> list[OpSchema]:
    formal, option = OpSchema.FormalParameter, OpSchema.FormalParameterOption.Optional
    attr, integer = OpSchema.Attribute, OpSchema.AttrType.INT
    float_lists, ints = OpSchema.AttrType.FLOATS, ["tensor(int32)"]
    return [OpSchema(
        "DynamicQuantizeLSTM", DOMAIN, 1,
        inputs=[formal("X", "T"), formal("W", "T2"), formal("R", "T2"),
                formal("B", "T", param_option=option),
                formal("sequence_lens", "T1", param_option=option),
                *[formal(name, "T", param_option=option)
                  for name in ("initial_h", "initial_c", "P")],
                formal("W_scale", "T"), formal("W_zero_point", "T2"),
                formal("R_scale", "T"), formal("R_zero_point", "T2")],
        outputs=[formal(name, "T", param_option=option) for name in ("Y", "Y_h", "Y_c")],
        type_constraints=[("T", FLOATS[:1], ""), ("T1", ints, ""),
                          ("T2", ["tensor(uint8)", "tensor(int8)"], "")],
        attributes=[attr(name, float_lists, required=False)
                    for name in ("activation_alpha", "activation_beta")] +
                   [attr("activations", OpSchema.AttrType.STRINGS, required=False),
                    attr("clip", OpSchema.AttrType.FLOAT, required=False),
                    attr("direction", onnx.helper.make_attribute("direction", "forward")),
                    attr("hidden_size", integer, required=False),
                    attr("input_forget", onnx.helper.make_attribute("input_forget", 0))],
        node_determinism=OpSchema.NodeDeterminism.Deterministic), OpSchema(
        "MatMulNBits", DOMAIN, 1,
        inputs=[formal("A", "T1"), formal("B", "T2"), formal("scales", "T1"),
                formal("zero_points", "T3", param_option=option),
                formal("g_idx", "T4", param_option=option),
                formal("bias", "T1", param_option=option)],
        outputs=[formal("Y", "T1")],
        type_constraints=[("T1", FLOATS, ""), ("T2", ["tensor(uint8)"], ""),
                          ("T3", ["tensor(uint8)", *FLOATS], ""), ("T4", ["tensor(int32)"], "")],
        attributes=[attr(name, integer, required=True) for name in ("K", "N", "block_size")] +
                   [attr("bits", onnx.helper.make_attribute("bits", 4)),
                    attr("accuracy_level", onnx.helper.make_attribute("accuracy_level", 0)),
                    attr("weight_prepacked", onnx.helper.make_attribute("weight_prepacked", 0))],
        node_determinism=OpSchema.NodeDeterminism.Deterministic)]
