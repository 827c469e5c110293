# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX Runtime has beside the published ones and that demi knows: those of its
domain com.microsoft, and two that its files have among ONNX's own. The onnx package does not have their
definitions, which are written down here from that runtime's; ops_def_test.py holds them against
it where it is installed. Others of the domain are somebody's own operators, as those of any domain
that is not published.

A paragraph an operator: operands as NAME:TYPE, with ? where it may be left out and ~ where there
are any number, each of a type of its own; type variables; attributes as NAME:KIND, with ! where it is
required, or =DEFAULT."""

import onnx.defs
import onnx.helper

OpSchema = onnx.defs.OpSchema
DOMAIN = "com.microsoft"

TABLE = """
LayerNormalization of ai.onnx
  in X:T Scale:V B:V?
  out Y:V Mean:U? InvStdDev:U?
  types T=float16,float,double,bfloat16 U=float,double V=float16,float,double,bfloat16
  attrs axis:int=-1 epsilon:float=1e-05 stash_type:int=1

SimplifiedLayerNormalization of ai.onnx
  in X:T scale:V
  out Y:V inv_std_var:U?
  types T=float16,float,double,bfloat16 U=float,double V=float16,float,double,bfloat16
  attrs axis:int=-1 epsilon:float=1e-05 stash_type:int=1

Attention
  in input:T weights:T bias:T? mask_index:M? past:T? attention_bias:T? past_sequence_length:M?
  out output:T present:T?
  types T=float,float16,bfloat16 M=int32
  attrs do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int
  attrs qkv_hidden_sizes:ints rotary_embedding_dim:int scale:float unidirectional:int=0

BiasGelu
  in A:T B:T
  out C:T
  types T=float16,float,double,bfloat16

BiasSoftmax
  in data:T bias:T
  out output:T
  types T=float16,float,double
  attrs axis:int=1 is_inner_broadcast:int!

BiasSplitGelu
  in X:T bias:T
  out Y:T
  types T=float16,float

CausalConvWithState
  in input:T weight:T bias:T? past_state:T?
  out output:T present_state:T
  types T=float,float16,bfloat16
  attrs activation:string=none channels_last:int=0 dilation:int=1 ndim:int=1 state_window:int=0

DequantizeLinear
  in x:T1 x_scale:T2 x_zero_point:T1?
  out y:T2
  types T1=int8,uint8,int16,uint16,int32,int4,uint4 T2=float16,float
  attrs axis:int

DynamicQuantizeLSTM
  in X:T W:T2 R:T2 B:T? sequence_lens:T1? initial_h:T? initial_c:T? P:T? W_scale:T
  in W_zero_point:T2 R_scale:T R_zero_point:T2
  out Y:T? Y_h:T? Y_c:T?
  types T=float T1=int32 T2=uint8,int8
  attrs activation_alpha:floats activation_beta:floats activations:strings clip:float
  attrs direction:string=forward hidden_size:int input_forget:int=0

DynamicQuantizeMatMul
  in A:T1 B:T2 b_scale:T1 b_zero_point:T2? bias:T1?
  out Y:T1
  types T1=float T2=int8,uint8

EmbedLayerNormalization
  in input_ids:T1 segment_ids:T1? word_embedding:T position_embedding:T segment_embedding:T?
  in gamma:T beta:T mask:T1? position_ids:T1?
  out output:T mask_index:T1? embedding_sum:T?
  types T1=int32 T=float,float16
  attrs epsilon:float=1e-12 mask_index_type:int

FastGelu
  in X:T bias:T?
  out Y:T
  types T=float,double,float16,bfloat16

FusedConv
  in X:T W:T B:T? Z:T?
  out Y:T
  types T=float16,float,double
  attrs activation:string activation_params:floats auto_pad:string=NOTSET dilations:ints
  attrs group:int=1 kernel_shape:ints pads:ints strides:ints

FusedGemm
  in A:T B:T C:T?
  out Y:T
  types T=float16,float,double,uint32,uint64,int32,int64
  attrs activation:string activation_alpha:float activation_beta:float activation_gamma:float
  attrs alpha:float=1 beta:float=1 transA:int=0 transB:int=0

FusedMatMul
  in A:T B:T
  out Y:T
  types T=float16,float,double,bfloat16
  attrs alpha:float=1 transA:int=0 transB:int=0 transBatchA:int=0 transBatchB:int=0

GatedAdd
  in X:T Y:T gate:T
  out output:T
  types T=float,float16,bfloat16

GatedRMSNorm
  in X:T scale:T gate:T
  out Y:T
  types T=float,float16,bfloat16
  attrs activation:string=silu epsilon:float=1e-05

GatherBlockQuantized
  in data:T1 indices:Tind scales:T2 zero_points:T1?
  out output:T2
  types T1=int4,uint4,uint8,float8e4m3fn,float8e4m3fnuz,float8e5m2,float8e5m2fnuz,float4e2m1
  types T2=float,float16,bfloat16 Tind=int32,int64
  attrs bits:int=4 block_size:int=128 gather_axis:int=0 quantize_axis:int=1

Gelu
  in X:T
  out Y:T
  types T=float16,float,double,bfloat16

GroupNorm
  in X:T gamma:M beta:M
  out Y:T
  types T=float16,float M=float16,float
  attrs activation:int! channels_last:int=1 epsilon:float=1e-05 groups:int!

GroupQueryAttention
  in query:T key:T? value:T? past_key:T_CACHE? past_value:T_CACHE? seqlens_k:M
  in total_sequence_length:M cos_cache:T? sin_cache:T? position_ids:int64? attention_bias:T?
  in head_sink:T? k_scale:T_KV_SCALE? v_scale:T_KV_SCALE? q_norm_weight:T? k_norm_weight:T?
  out output:T present_key:T_CACHE? present_value:T_CACHE? output_qk:T?
  types T=float16,bfloat16,float T_CACHE=float,float16,bfloat16,uint8,int8,float8e4m3fn
  types T_KV_SCALE=float M=int32
  attrs causal:int=1 do_rotary:int k_quant_type:string=NONE kv_cache_bit_width:int
  attrs kv_num_heads:int! local_window_size:int=-1 num_heads:int! qk_norm_epsilon:float=1e-06
  attrs qk_output:int=0 rotary_interleaved:int scale:float sliding_window_cache:int=0
  attrs smooth_softmax:int=-1 softcap:float v_quant_type:string=NONE

Inverse
  in X:T
  out Y:T
  types T=float16,float,double

LinearAttention
  in query:T key:T value:T past_state:S? decay:T? beta:T?
  out output:T present_state:S
  types T=float,float16,bfloat16 S=float,float16,bfloat16
  attrs chunk_size:int=64 kv_num_heads:int! q_num_heads:int! scale:float=0 state_window:int=0
  attrs update_rule:string=gated_delta

LinearAttentionGate
  in a:T dt_bias:TF decay_scale:TF b:T?
  out decay:T beta:T?
  types T=float,float16,bfloat16 TF=float

MatMulBnb4
  in A:T1 B:T2 absmax:T1
  out Y:T1
  types T1=float,float16,bfloat16 T2=uint8
  attrs K:int! N:int! block_size:int! quant_type:int! training_mode:int=0 transB:int=1

MatMulIntegerToFloat
  in A:T1 B:T2 a_scale:T3 b_scale:T3 a_zero_point:T1? b_zero_point:T2? bias:T3?
  out Y:T3
  types T1=int8,uint8 T2=int8,uint8 T3=float,float16

MatMulNBits
  in A:T1 B:T2 scales:T1 zero_points:T3? g_idx:T4? bias:T1?
  out Y:T1
  types T1=float,float16,bfloat16 T2=uint8 T3=uint8,float16,float,bfloat16 T4=int32
  attrs K:int! N:int! accuracy_level:int=0 bits:int=4 block_size:int! weight_prepacked:int=0

MoE
  in input:T router_probs:T fc1_experts_weights:T fc1_experts_bias:T? fc2_experts_weights:T
  in fc2_experts_bias:T? fc3_experts_weights:T? fc3_experts_bias:T?
  out output:T
  types T=float,float16,bfloat16
  attrs activation_alpha:float=1 activation_beta:float=0 activation_type:string=relu k:int=1
  attrs normalize_routing_weights:int=0 swiglu_fusion:int=0 swiglu_limit:float
  attrs use_sparse_mixer:int=0

MultiHeadAttention
  in query:T key:T? value:T? bias:T? key_padding_mask:M? attention_bias:T? past_key:T?
  in past_value:T? past_sequence_length:M? cache_indirection:M?
  out output:T present_key:T? present_value:T? qk:QK?
  types T=float,float16,bfloat16 QK=float,float16,bfloat16 M=int32
  attrs mask_filter_value:float num_heads:int! scale:float unidirectional:int=0

NhwcConv
  in X:T W:T B:T?
  out Y:T
  types T=float16,float,double
  attrs auto_pad:string=NOTSET dilations:ints group:int=1 kernel_shape:ints pads:ints strides:ints

NhwcMaxPool
  in x:T
  out y:T
  types T=int8,uint8
  attrs auto_pad:string=NOTSET ceil_mode:int=0 dilations:ints kernel_shape:ints! pads:ints
  attrs strides:ints

QAttention
  in input:T1 weight:T2 bias:T3 input_scale:T3 weight_scale:T3 mask_index:T4?
  in input_zero_point:T1? weight_zero_point:T2? past:T3?
  out output:T3 present:T3?
  types T1=int8,uint8 T2=int8,uint8 T3=float,float16 T4=int32
  attrs do_rotary:int mask_filter_value:float num_heads:int! past_present_share_buffer:int
  attrs scale:float unidirectional:int=0

QEmbedLayerNormalization
  in input_ids:T1 segment_ids:T1? word_embedding_quant:T2 position_embedding_quant:T2
  in segment_embedding:T2? gamma_quant:T2 beta_quant:T2 mask:T1? word_embedding_scale:T
  in position_embedding_scale:T segment_embedding_scale:T? gamma_scale:T beta_scale:T
  in word_embedding_zero_point:T2 position_embedding_zero_point:T2
  in segment_embedding_zero_point:T2? gamma_zero_point:T2 beta_zero_point:T2
  out layernorm_out:T mask_index_out:T1
  types T1=int32 T2=int8,uint8 T=float
  attrs epsilon:float=1e-12

QGemm
  in A:TA a_scale:T a_zero_point:TA B:TB b_scale:T b_zero_point:TB C:TC? y_scale:T?
  in y_zero_point:TYZ?
  out Y:TY
  types T=float TA=uint8,int8 TB=uint8,int8 TC=int32 TYZ=uint8,int8 TY=float,uint8,int8
  attrs alpha:float=1 transA:int=0 transB:int=0

QLinearAdd
  in A:T A_scale:float A_zero_point:T? B:T B_scale:float B_zero_point:T? C_scale:float
  in C_zero_point:T?
  out C:T
  types T=uint8,int8

QLinearAveragePool
  in X:T x_scale:float x_zero_point:T? y_scale:float y_zero_point:T?
  out Y:T
  types T=uint8,int8
  attrs auto_pad:string=NOTSET ceil_mode:int=0 channels_last:int=0 count_include_pad:int=0
  attrs kernel_shape:ints! pads:ints strides:ints

QLinearConcat
  in Y_scale:TF Y_zero_point:T8 inputs:TV~
  out Y:T8
  types T8=uint8,int8 TF=float TV=uint8,int8,float
  attrs axis:int!

QLinearConv
  in x:T1 x_scale:float x_zero_point:T1 w:T2 w_scale:float w_zero_point:T2 y_scale:float
  in y_zero_point:T3 B:T4?
  out y:T3
  types T1=int8,uint8 T2=int8,uint8 T3=int8,uint8 T4=int32
  attrs auto_pad:string=NOTSET channels_last:int=0 dilations:ints group:int=1
  attrs kernel_shape:ints pads:ints strides:ints

QLinearGlobalAveragePool
  in X:T x_scale:float x_zero_point:T y_scale:float y_zero_point:T
  out Y:T
  types T=uint8,int8
  attrs channels_last:int=0

QLinearLeakyRelu
  in X:T X_scale:float X_zero_point:T? Y_scale:float Y_zero_point:T?
  out Y:T
  types T=uint8,int8
  attrs alpha:float=0.01

QLinearMul
  in A:T A_scale:float A_zero_point:T? B:T B_scale:float B_zero_point:T? C_scale:float
  in C_zero_point:T?
  out C:T
  types T=uint8,int8

QLinearSigmoid
  in X:T X_scale:float X_zero_point:T? Y_scale:float Y_zero_point:T?
  out Y:T
  types T=uint8,int8

QLinearSoftmax
  in X:T X_scale:float x_zero_point:T? y_scale:float y_zero_point:T
  out Y:T
  types T=uint8,int8
  attrs axis:int=-1 opset:int!

QLinearWhere
  in condition:B X:T x_scale:TF x_zero_point:T Y:T y_scale:TF y_zero_point:T z_scale:TF
  in z_zero_point:T
  out Z:T
  types B=bool TF=float T=uint8,int8

QMoE
  in input:T router_probs:T fc1_experts_weights:T1 fc1_scales:T2? fc1_experts_bias:T?
  in fc2_experts_weights:T1 fc2_scales:T2? fc2_experts_bias:T? fc3_experts_weights:T1?
  in fc3_scales:T2? fc3_experts_bias:T? fc1_zero_points:T1? fc2_zero_points:T1?
  in fc3_zero_points:T1? router_weights:T? fc1_global_scale:T4? fc2_global_scale:T4?
  in fc1_act_scale:T4? fc2_act_scale:T4? fc1_act_block_scale:T2? fc2_act_block_scale:T2?
  out output:T
  types T=float,float16,bfloat16 T1=uint8,float8e4m3fn
  types T2=float,float16,bfloat16,float8e8m0,float8e4m3fn T4=float
  attrs accuracy_level:int=0 activation_alpha:float=1 activation_beta:float=0
  attrs activation_type:string=relu block_size:int expert_weight_bits:int=4
  attrs fc1_expert_weight_bits:int fc2_expert_weight_bits:int fc3_expert_weight_bits:int k:int=1
  attrs normalize_routing_weights:int=0 quant_type:string=int swiglu_fusion:int=0
  attrs swiglu_limit:float use_sparse_mixer:int=0 weights_prepacked:int=-1

QuantizeLinear
  in x:T1 y_scale:T1 y_zero_point:T2?
  out y:T2
  types T1=float16,float T2=int8,uint8,int16,uint16,int4,uint4
  attrs axis:int

QuickGelu
  in X:T
  out Y:T
  types T=float16,float,double,bfloat16
  attrs alpha:float=1.702

RotaryEmbedding
  in input:T position_ids:M cos_cache:T sin_cache:T
  out output:T
  types T=float,float16,bfloat16 M=int64
  attrs interleaved:int is_packed_batching:int num_heads:int rotary_embedding_dim:int scale:float

SkipGroupNorm
  in X:T gamma:M beta:M skip:T bias:T?
  out Y:T S:T?
  types T=float16,float M=float16,float
  attrs activation:int! channels_last:int=1 epsilon:float=1e-05 groups:int!

SkipLayerNormalization
  in input:T skip:T gamma:T beta:T? bias:T?
  out output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?
  types T=float,float16,bfloat16 U=float
  attrs epsilon:float=1e-12

SkipSimplifiedLayerNormalization
  in input:T skip:T gamma:T bias:T?
  out output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?
  types T=float,float16,bfloat16 U=float
  attrs epsilon:float=1e-12

TransposeMatMul
  in A:T B:T
  out Y:T
  types T=float16,float,double,bfloat16
  attrs alpha:float=1 transA:int=0 transB:int=0
"""


def _operand(word: str) -> OpSchema.FormalParameter:
    option = OpSchema.FormalParameterOption
    name, kind = word.split(":")
    given = {"?": option.Optional, "~": option.Variadic}.get(kind[-1], option.Single)
    kind = kind.rstrip("?~")
    if kind[0].islower():
        kind = f"tensor({kind})"
    return OpSchema.FormalParameter(name, kind, param_option=given,
                                    is_homogeneous=not word.endswith("~"))


def _attribute(word: str) -> OpSchema.Attribute:
    head, _, default = word.partition("=")
    name, kind = head.rstrip("!").split(":")
    if not default:
        return OpSchema.Attribute(name, OpSchema.AttrType[kind.upper()],
                                  required=head.endswith("!"))
    value = {"int": int, "float": float, "string": str}[kind](default)
    return OpSchema.Attribute(name, onnx.helper.make_attribute(name, value))


def _variable(word: str) -> tuple[str, list[str], str]:
    name, types = word.split("=")
    return name, [f"tensor({each})" for each in types.split(",")], ""


def _schema(text: str) -> OpSchema:
    title, *lines = text.splitlines()
    words: dict[str, list[str]] = {"in": [], "out": [], "types": [], "attrs": []}
    for line in lines:
        kind, *found = line.split()
        words[kind] += found
    name, _, domain = title.partition(" of ")
    return OpSchema(
        name, "" if domain else DOMAIN, 1,
        inputs=list(map(_operand, words["in"])), outputs=list(map(_operand, words["out"])),
        type_constraints=list(map(_variable, words["types"])),
        attributes=list(map(_attribute, words["attrs"])),
        node_determinism=OpSchema.NodeDeterminism.Deterministic)


def schemas() -> list[OpSchema]:
    return [_schema(text) for text in TABLE.strip().split("\n\n")]
