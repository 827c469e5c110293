// SPDX-License-Identifier: Apache-2.0
/* Layouts of the attribute structs: attribute names, kinds and what holds where one is absent, as
 * the operators' definitions say. A field that only some operators of a family have is harmless to
 * the others: no valid node carries it.
 */
#include "shape_attrs.h"

#define INT(Struct, member, text, absent)                                                          \
    {                                                                                              \
        .name = text, .kind = ATTR_FIELD_INT, .offset = offsetof(Struct, member),                  \
        .otherwise = absent                                                                        \
    }
#define FIELD(Struct, member, text, what)                                                          \
    { .name = text, .kind = ATTR_FIELD_##what, .offset = offsetof(Struct, member) }
#define CHOICE(Struct, member, text, list, absent)                                                 \
    {                                                                                              \
        .name = text, .kind = ATTR_FIELD_CHOICE, .offset = offsetof(Struct, member),               \
        .otherwise = absent, .choices = list                                                       \
    }
#define END                                                                                        \
    { .name = NULL }

#define LAYOUT(id, Struct, ...)                                                                    \
    static const AttrField id##_fields[] = {__VA_ARGS__};                                          \
    const AttrLayout shape_layout_##id = {sizeof(Struct), id##_fields}

static const char *const auto_pads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", NULL};
static const char *const aspects[] = {"stretch", "not_larger", "not_smaller", NULL};
static const char *const crops[] = {"tf_crop_and_resize", NULL};
static const char *const reductions[] = {"none", "sum", "mean", NULL};
static const char *const directions[] = {"forward", "reverse", "bidirectional", NULL};

LAYOUT(none, char, END);

#define AXIS(absent)                                                                               \
    INT(ShapeAxisAttrs, axis, "axis", absent), INT(ShapeAxisAttrs, keepdims, "keepdims", 1),       \
        INT(ShapeAxisAttrs, new_axis, "new_axis", 0)
LAYOUT(axis_0, ShapeAxisAttrs, AXIS(0), END);
LAYOUT(axis_1, ShapeAxisAttrs, AXIS(1), END);
LAYOUT(axis_last, ShapeAxisAttrs, AXIS(-1), END);
LAYOUT(axis_absent, ShapeAxisAttrs, AXIS(ATTR_ABSENT), END);
LAYOUT(topk, ShapeAxisAttrs, AXIS(-1), INT(ShapeAxisAttrs, k, "k", ATTR_ABSENT), END);

LAYOUT(axes, ShapeAxesAttrs, FIELD(ShapeAxesAttrs, axes, "axes", INTS),
       INT(ShapeAxesAttrs, keepdims, "keepdims", 1),
       INT(ShapeAxesAttrs, noop_with_empty_axes, "noop_with_empty_axes", 0), END);

LAYOUT(window, ShapeWindowAttrs,
       CHOICE(ShapeWindowAttrs, auto_pad, "auto_pad", auto_pads, SHAPE_PAD_NOTSET),
       INT(ShapeWindowAttrs, group, "group", 1), INT(ShapeWindowAttrs, ceil_mode, "ceil_mode", 0),
       FIELD(ShapeWindowAttrs, kernel_shape, "kernel_shape", INTS),
       FIELD(ShapeWindowAttrs, strides, "strides", INTS),
       FIELD(ShapeWindowAttrs, dilations, "dilations", INTS),
       FIELD(ShapeWindowAttrs, pads, "pads", INTS),
       FIELD(ShapeWindowAttrs, output_padding, "output_padding", INTS),
       FIELD(ShapeWindowAttrs, output_shape, "output_shape", INTS), END);

LAYOUT(gemm, ShapeGemmAttrs, INT(ShapeGemmAttrs, trans_a, "transA", 0),
       INT(ShapeGemmAttrs, trans_b, "transB", 0), END);
LAYOUT(einsum, ShapeEinsumAttrs, FIELD(ShapeEinsumAttrs, equation, "equation", TEXT), END);
LAYOUT(reshape, ShapeReshapeAttrs, FIELD(ShapeReshapeAttrs, shape, "shape", INTS),
       INT(ShapeReshapeAttrs, allowzero, "allowzero", 0), END);
LAYOUT(transpose, ShapeTransposeAttrs, FIELD(ShapeTransposeAttrs, perm, "perm", INTS), END);
LAYOUT(split, ShapeSplitAttrs, INT(ShapeSplitAttrs, axis, "axis", 0),
       FIELD(ShapeSplitAttrs, split, "split", INTS),
       INT(ShapeSplitAttrs, num_outputs, "num_outputs", ATTR_ABSENT), END);
LAYOUT(slice, ShapeSliceAttrs, FIELD(ShapeSliceAttrs, starts, "starts", INTS),
       FIELD(ShapeSliceAttrs, ends, "ends", INTS), FIELD(ShapeSliceAttrs, axes, "axes", INTS), END);
LAYOUT(pad_1, ShapePadAttrs, FIELD(ShapePadAttrs, pads, "paddings", INTS), END);
LAYOUT(pad, ShapePadAttrs, FIELD(ShapePadAttrs, pads, "pads", INTS), END);
LAYOUT(block, ShapeBlockAttrs, INT(ShapeBlockAttrs, blocksize, "blocksize", ATTR_ABSENT), END);
LAYOUT(resize, ShapeResizeAttrs, FIELD(ShapeResizeAttrs, scales, "scales", FLOATS),
       FIELD(ShapeResizeAttrs, height_scale, "height_scale", FLOAT),
       FIELD(ShapeResizeAttrs, width_scale, "width_scale", FLOAT),
       FIELD(ShapeResizeAttrs, axes, "axes", INTS),
       CHOICE(ShapeResizeAttrs, aspect, "keep_aspect_ratio_policy", aspects, SHAPE_STRETCH),
       CHOICE(ShapeResizeAttrs, crop, "coordinate_transformation_mode", crops, -1), END);
LAYOUT(gather, ShapeGatherAttrs, INT(ShapeGatherAttrs, batch_dims, "batch_dims", 0), END);
LAYOUT(shape, ShapeShapeAttrs, INT(ShapeShapeAttrs, start, "start", 0),
       INT(ShapeShapeAttrs, end, "end", INT64_MAX), END);
LAYOUT(constant, ShapeConstantAttrs, FIELD(ShapeConstantAttrs, value, "value", TENSOR),
       FIELD(ShapeConstantAttrs, sparse_value, "sparse_value", TENSOR),
       FIELD(ShapeConstantAttrs, value_ints, "value_ints", INTS),
       FIELD(ShapeConstantAttrs, value_strings, "value_strings", STRINGS),
       FIELD(ShapeConstantAttrs, value_float, "value_float", FLOAT),
       FIELD(ShapeConstantAttrs, value_floats, "value_floats", FLOATS),
       INT(ShapeConstantAttrs, value_int, "value_int", ATTR_ABSENT),
       FIELD(ShapeConstantAttrs, value_string, "value_string", TEXT), END);
LAYOUT(cast, ShapeCastAttrs, INT(ShapeCastAttrs, to, "to", DTYPE_UNDEFINED), END);
LAYOUT(sample, ShapeSampleAttrs, INT(ShapeSampleAttrs, sample_size, "sample_size", 1), END);
LAYOUT(loss, ShapeLossAttrs,
       CHOICE(ShapeLossAttrs, reduction, "reduction", reductions, SHAPE_REDUCE_MEAN), END);
LAYOUT(recurrent, ShapeRecurrentAttrs,
       CHOICE(ShapeRecurrentAttrs, direction, "direction", directions, 0),
       INT(ShapeRecurrentAttrs, hidden_size, "hidden_size", ATTR_ABSENT),
       INT(ShapeRecurrentAttrs, layout, "layout", 0), END);
LAYOUT(heads, ShapeHeadsAttrs, INT(ShapeHeadsAttrs, q_num_heads, "q_num_heads", ATTR_ABSENT),
       INT(ShapeHeadsAttrs, kv_num_heads, "kv_num_heads", ATTR_ABSENT), END);
LAYOUT(roi, ShapeRoiAttrs, INT(ShapeRoiAttrs, output_height, "output_height", 1),
       INT(ShapeRoiAttrs, output_width, "output_width", 1),
       FIELD(ShapeRoiAttrs, pooled_shape, "pooled_shape", INTS), END);
LAYOUT(dft_17, ShapeSignalAttrs, INT(ShapeSignalAttrs, axis, "axis", 1),
       INT(ShapeSignalAttrs, inverse, "inverse", 0), INT(ShapeSignalAttrs, onesided, "onesided", 0),
       END);
LAYOUT(dft, ShapeSignalAttrs, INT(ShapeSignalAttrs, axis, "axis", -2),
       INT(ShapeSignalAttrs, inverse, "inverse", 0), INT(ShapeSignalAttrs, onesided, "onesided", 0),
       END);
LAYOUT(stft, ShapeSignalAttrs, INT(ShapeSignalAttrs, onesided, "onesided", 1), END);
LAYOUT(mod, ShapeModAttrs, INT(ShapeModAttrs, fmod, "fmod", 0), END);
LAYOUT(ml, ShapeMlAttrs, INT(ShapeMlAttrs, targets, "n_targets", ATTR_ABSENT),
       FIELD(ShapeMlAttrs, categories, "cats_int64s", INTS),
       FIELD(ShapeMlAttrs, category_strings, "cats_strings", STRINGS),
       FIELD(ShapeMlAttrs, indexes, "ngram_indexes", INTS), END);
LAYOUT(linear, ShapeMlAttrs, INT(ShapeMlAttrs, targets, "targets", 1), END);
