// SPDX-License-Identifier: Apache-2.0
/* Attribute structs of the shape functions, one per family: only what shapes depend on.
 *
 * Each has a layout, shape_layout_NAME, that says which attribute of a node fills which field and
 * what holds where it is absent; so that one builder serves all operators. Integers that are
 * ATTR_ABSENT were not given.
 */
#ifndef DEMI_SHAPE_ATTRS_H
#define DEMI_SHAPE_ATTRS_H

#include "shape.h"

typedef struct ShapeAxisAttrs {
    int64_t axis;
    int64_t keepdims; /* ArgMax, SplitToSequence */
    int64_t new_axis; /* ConcatFromSequence */
    int64_t k;        /* TopK-1 */
} ShapeAxisAttrs;

typedef struct ShapeAxesAttrs {
    AttrInts axes;
    int64_t keepdims;
    int64_t noop_with_empty_axes;
} ShapeAxesAttrs;

typedef enum ShapeAutoPad {
    SHAPE_PAD_NOTSET,
    SHAPE_PAD_SAME_UPPER,
    SHAPE_PAD_SAME_LOWER,
    SHAPE_PAD_VALID
} ShapeAutoPad;

/* Convolutions, pools and what undoes them. */
typedef struct ShapeWindowAttrs {
    int64_t auto_pad; /* a ShapeAutoPad, -1 where it is none of them */
    int64_t group;
    int64_t ceil_mode;
    AttrInts kernel_shape, strides, dilations, pads;
    AttrInts output_padding, output_shape; /* ConvTranspose */
} ShapeWindowAttrs;

typedef struct ShapeGemmAttrs {
    int64_t trans_a, trans_b;
} ShapeGemmAttrs;

typedef struct ShapeEinsumAttrs {
    AttrText equation;
} ShapeEinsumAttrs;

typedef struct ShapeReshapeAttrs {
    AttrInts shape; /* Reshape-1; RandomNormal, RandomUniform */
    int64_t allowzero;
} ShapeReshapeAttrs;

typedef struct ShapeTransposeAttrs {
    AttrInts perm;
} ShapeTransposeAttrs;

typedef struct ShapeSplitAttrs {
    int64_t axis;
    AttrInts split;
    int64_t num_outputs;
} ShapeSplitAttrs;

typedef struct ShapeSliceAttrs {
    AttrInts starts, ends, axes;
} ShapeSliceAttrs;

typedef struct ShapePadAttrs {
    AttrInts pads;
} ShapePadAttrs;

typedef struct ShapeBlockAttrs {
    int64_t blocksize;
} ShapeBlockAttrs;

typedef enum ShapeAspect { SHAPE_STRETCH, SHAPE_NOT_LARGER, SHAPE_NOT_SMALLER } ShapeAspect;

typedef struct ShapeResizeAttrs {
    AttrFloats scales, height_scale, width_scale; /* Upsample-7, Upsample-1 */
    AttrInts axes;
    int64_t aspect; /* a ShapeAspect */
    int64_t crop;   /* 0: tf_crop_and_resize, -1: any other mode */
} ShapeResizeAttrs;

typedef struct ShapeGatherAttrs {
    int64_t batch_dims;
} ShapeGatherAttrs;

typedef struct ShapeShapeAttrs {
    int64_t start, end;
} ShapeShapeAttrs;

typedef struct ShapeConstantAttrs {
    AttrTensor value, sparse_value;
    AttrInts value_ints, value_strings;
    AttrFloats value_float, value_floats;
    int64_t value_int;
    AttrText value_string;
} ShapeConstantAttrs;

typedef struct ShapeCastAttrs {
    int64_t to;
} ShapeCastAttrs;

typedef struct ShapeSampleAttrs {
    int64_t sample_size;
} ShapeSampleAttrs;

typedef enum ShapeReduction {
    SHAPE_REDUCE_NONE,
    SHAPE_REDUCE_SUM,
    SHAPE_REDUCE_MEAN
} ShapeReduction;

typedef struct ShapeLossAttrs {
    int64_t reduction; /* a ShapeReduction */
} ShapeLossAttrs;

typedef struct ShapeRecurrentAttrs {
    int64_t direction; /* 0 forward, 1 reverse, 2 bidirectional */
    int64_t hidden_size, layout;
} ShapeRecurrentAttrs;

typedef struct ShapeHeadsAttrs {
    int64_t q_num_heads, kv_num_heads;
} ShapeHeadsAttrs;

typedef struct ShapeRoiAttrs {
    int64_t output_height, output_width;
    AttrInts pooled_shape;
} ShapeRoiAttrs;

typedef struct ShapeSignalAttrs {
    int64_t axis, inverse, onesided;
} ShapeSignalAttrs;

typedef struct ShapeModAttrs {
    int64_t fmod;
} ShapeModAttrs;

/* ai.onnx.ml, and TfIdfVectorizer. */
typedef struct ShapeMlAttrs {
    int64_t targets;
    AttrInts categories, category_strings;
    AttrInts indexes;
} ShapeMlAttrs;

extern const AttrLayout shape_layout_none, shape_layout_axis_0, shape_layout_axis_1,
    shape_layout_axis_last, shape_layout_axis_absent, shape_layout_topk, shape_layout_axes,
    shape_layout_window, shape_layout_gemm, shape_layout_einsum, shape_layout_reshape,
    shape_layout_transpose, shape_layout_split, shape_layout_slice, shape_layout_pad_1,
    shape_layout_pad, shape_layout_block, shape_layout_resize, shape_layout_gather,
    shape_layout_shape, shape_layout_constant, shape_layout_cast, shape_layout_sample,
    shape_layout_loss, shape_layout_recurrent, shape_layout_heads, shape_layout_roi,
    shape_layout_dft_17, shape_layout_dft, shape_layout_stft, shape_layout_mod, shape_layout_ml,
    shape_layout_linear;

#endif
