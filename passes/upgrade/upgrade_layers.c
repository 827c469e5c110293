// SPDX-License-Identifier: Apache-2.0
/* Steps of upgrade-opset for layers: normalization, dropout, softmax, pooling, resizing, Scan. Each
 * check asks what its apply will ask; see upgrade.h. */
#include <string.h>

#include "constants.h"
#include "shape_args.h"
#include "upgrade.h"

static bool is_used(const Node *node, uint32_t output) {
    return output < node->output_count && node->outputs[output] &&
           node->outputs[output]->use_count > 0;
}

/* Drops what is known of an output nobody reads. */
static void forget_output(Node *node, uint32_t output) {
    if (output >= node->output_count || !node->outputs[output]) return;
    value_remove_info(node->outputs[output]);
    value_set_type(node->outputs[output], NULL);
}

/* Drops the outputs from `count` on, which nobody reads. */
static void drop_outputs(Node *node, uint32_t count) {
    for (uint32_t i = count; i < node->output_count; i++) forget_output(node, i);
    if (node->output_count > count) node_resize_outputs(node, count);
}

/* ---- BatchNormalization ---------------------------------------------------------------------- */

static bool is_training(const Node *node) {
    return node_attr_int(node, "is_test", 0) == 0;
}

/* 6 -> 7: is_test goes; from here on more than one output means training, until 14. Test mode wrote
 * no other outputs. */
bool upgrade_check_batch_norm_mode(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "is_test", err)) return false;
    for (uint32_t i = 1; i < node->output_count && !is_training(node); i++)
        if (is_used(node, i))
            return upgrade_refuse(upgrade, node, err,
                                  "reads statistics that test mode does not compute");
    return true;
}

void upgrade_apply_batch_norm_mode(Upgrade *upgrade, Node *node) {
    static const char *const stems[] = {"", "mean", "var", "saved_mean", "saved_var"};
    if (!is_training(node)) drop_outputs(node, 1);
    bool fill = is_training(node) && node->output_count == 1;
    for (uint32_t i = 1; fill && i < 5; i++) {
        node_resize_outputs(node, i + 1);
        node_set_output(node, i, upgrade_value(upgrade, node, stems[i]));
    }
    node_remove_attr(node, "is_test");
}

/* 8 -> 9: nothing changes, but from here on ONNX's inference looks at the operands' shapes, so that a
 * model that was valid although it can't run would become invalid. */
bool upgrade_check_batch_norm_operands(Upgrade *upgrade, const Node *node, Err *err) {
    enum { OPERANDS = 5 };
    ShapeOperand operands[OPERANDS] = {0}, output = {.present = true};
    for (uint32_t i = 0; i < OPERANDS; i++)
        operands[i] =
            shape_args_of_type(upgrade_input_type(upgrade, node, i), upgrade->ctx->scratch);
    ShapeCall call = {.arena = upgrade->ctx->scratch,
                      .inputs = operands,
                      .outputs = &output,
                      .input_count = OPERANDS,
                      .output_count = 1,
                      .strict = true};
    return shape_infer(shape_find("", "BatchNormalization", 9), &call) ||
           upgrade_refuse(upgrade, node, err, "its operands' shapes do not fit: %s", call.reason);
}

void upgrade_apply_batch_norm_operands(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    (void)node;
}

/* 13 -> 14: what the number of outputs said is an attribute, and the saved statistics are gone. */
bool upgrade_check_batch_norm_outputs(Upgrade *upgrade, const Node *node, Err *err) {
    for (uint32_t i = 3; i < node->output_count; i++)
        if (is_used(node, i))
            return upgrade_refuse(upgrade, node, err, "its saved statistics are no longer outputs");
    return true;
}

void upgrade_apply_batch_norm_outputs(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    bool training = false;
    for (uint32_t i = 1; i < node->output_count; i++) training |= node->outputs[i] != NULL;
    drop_outputs(node, 3);
    if (training) node_set_attr_int(node, "training_mode", 1);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

enum { TRAINING_INPUT_OPSET = 12 };

/* 6 -> 7: operators of 7 to 11 can't be told to train; those of 12 can, again. In between, the
 * attribute stays on the node that needs it. */
bool upgrade_check_dropout_mode(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "is_test", err)) return false;
    if (!is_training(node) || upgrade->to >= TRAINING_INPUT_OPSET) return true;
    return upgrade_refuse(upgrade, node, err, "no training mode before opset 12");
}

void upgrade_apply_dropout_mode(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    if (is_training(node))
        node_set_attr_int(node, "is_test", 0);
    else
        node_remove_attr(node, "is_test");
}

/* 7 -> 10: the mask was of the data's type and is bool. */
bool upgrade_check_dropout_mask(Upgrade *upgrade, const Node *node, Err *err) {
    if (!is_used(node, 1) || upgrade_can_make_like(upgrade, node, 0)) return true;
    return upgrade_refuse(upgrade, node, err, "the type of its mask is unknown");
}

void upgrade_apply_dropout_mask(Upgrade *upgrade, Node *node) {
    enum { CAST_OPSET = 9, CAST_LIKE_OPSET = 15 };
    if (!is_used(node, 1)) {
        forget_output(node, 1); /* what the file says of its type is no longer so */
        return;
    }
    Dtype dtype = upgrade_dtype(upgrade, node, 0);
    Value *mask = upgrade_detach_output(upgrade, node, 1, "mask");
    Value *inputs[] = {node->outputs[1], dtype ? NULL : node->inputs[0].value, NULL};
    Value *made = upgrade_node(upgrade, node, node->next, dtype ? "Cast" : "CastLike",
                               dtype ? CAST_OPSET : CAST_LIKE_OPSET, inputs, "mask");
    if (dtype) node_set_attr_int(made->producer, "to", dtype);
    upgrade_move_output(made, mask);
}

/* 11 -> 12: ratio and mode are inputs. */
bool upgrade_check_dropout_ratio(Upgrade *upgrade, const Node *node, Err *err) {
    return upgrade_check_plain(upgrade, node, "ratio", err);
}

void upgrade_apply_dropout_ratio(Upgrade *upgrade, Node *node) {
    float ratio;
    if (attr_float(node_attr(node, "ratio"), &ratio)) {
        const Tensor *tensor = tensor_new_float_scalar(&upgrade->model->arena, ratio);
        upgrade_set_input(node, 1, upgrade_constant(upgrade, node, tensor, "ratio"));
    }
    if (node_attr(node, "is_test"))
        upgrade_set_input(node, 2, upgrade_bool(upgrade, node, true, "training"));
    node_remove_attr(node, "ratio");
    node_remove_attr(node, "is_test");
}

/* ---- Softmax, LogSoftmax, Hardmax ------------------------------------------------------------ */

/* 11 -> 13: from all dimensions from `axis` on, seen as one, to that axis alone. The same where the
 * axis is the last, or those behind it are 1. */
static bool flat_is_axis(Upgrade *upgrade, const Node *node, int64_t axis) {
    int64_t rank = upgrade_rank(upgrade, node, 0);
    if (axis == -1) return true;
    if (rank < 0) return false;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return false;
    for (int64_t i = axis + 1; i < rank; i++)
        if (upgrade_dim(upgrade, node, 0, (uint32_t)i) != 1) return false;
    return true;
}

bool upgrade_check_flat_softmax(Upgrade *upgrade, const Node *node, Err *err) {
    flat_is_axis(upgrade, node, node_attr_int(node, "axis", 1));
    return upgrade_check_plain(upgrade, node, "axis", err);
}

void upgrade_apply_flat_softmax(Upgrade *upgrade, Node *node) {
    enum { OPSET = 13, ALLOWZERO_OPSET = 14 };
    int64_t axis = node_attr_int(node, "axis", 1);
    if (flat_is_axis(upgrade, node, axis)) {
        node_set_attr_int(node, "axis", axis);
        return;
    }
    Value *x = node->inputs[0].value;
    Value *flat =
        upgrade_node(upgrade, node, node, "Flatten", OPSET, (Value *const[]){x, NULL}, "flat");
    node_set_attr_int(flat->producer, "axis", axis);
    Value *shape =
        upgrade_node(upgrade, node, node, "Shape", OPSET, (Value *const[]){x, NULL}, "shape");
    node_set_input(node, 0, flat);
    node_set_attr_int(node, "axis", -1);
    Value *y = upgrade_detach_output(upgrade, node, 0, "flat");
    Value *made = upgrade_node(upgrade, node, node->next, "Reshape", OPSET,
                               (Value *const[]){node->outputs[0], shape, NULL}, "shaped");
    if (upgrade->to >= ALLOWZERO_OPSET) node_set_attr_int(made->producer, "allowzero", 1);
    upgrade_move_output(made, y);
}

/* ---- GroupNormalization ---------------------------------------------------------------------- */

/* 18 -> 21: scale and bias have an element a channel, no longer one a group: each is repeated. */
bool upgrade_check_group_norm_scale(Upgrade *upgrade, const Node *node, Err *err) {
    upgrade_dim(upgrade, node, 0, 1);
    return upgrade_check_plain(upgrade, node, "num_groups", err);
}

/* [1, channels / groups], as a value. */
static Value *repeat_shape(Upgrade *upgrade, Node *node, int64_t groups) {
    enum { OPSET = 21 };
    int64_t channels = upgrade_dim(upgrade, node, 0, 1);
    if (channels >= 0 && groups > 0)
        return upgrade_ints(upgrade, node, (int64_t[]){1, channels / groups}, 2, "repeat");
    Value *size = upgrade_node(upgrade, node, node, "Shape", OPSET,
                               (Value *const[]){node->inputs[0].value, NULL}, "channels");
    node_set_attr_int(size->producer, "start", 1);
    node_set_attr_int(size->producer, "end", 2);
    Value *divisor = upgrade_int(upgrade, node, groups, 1, "groups");
    Value *repeat = upgrade_node(upgrade, node, node, "Div", OPSET,
                                 (Value *const[]){size, divisor, NULL}, "repeat");
    Value *one = upgrade_int(upgrade, node, 1, 1, "one");
    Value *shape = upgrade_node(upgrade, node, node, "Concat", OPSET,
                                (Value *const[]){one, repeat, NULL}, "repeat");
    node_set_attr_int(shape->producer, "axis", 0);
    return shape;
}

void upgrade_apply_group_norm_scale(Upgrade *upgrade, Node *node) {
    enum { OPSET = 21 };
    int64_t groups = node_attr_int(node, "num_groups", 1);
    Value *shape = repeat_shape(upgrade, node, groups);
    Value *column = upgrade_int(upgrade, node, 1, 1, "column");
    Value *flat = upgrade_int(upgrade, node, -1, 1, "flat");
    for (uint32_t i = 1; i <= 2; i++) {
        const char *stem = i == 1 ? "scale" : "bias";
        Value *given = upgrade_input(node, i);
        if (!given) continue;
        Value *rows = upgrade_node(upgrade, node, node, "Unsqueeze", OPSET,
                                   (Value *const[]){given, column, NULL}, stem);
        Value *wide = upgrade_node(upgrade, node, node, "Expand", OPSET,
                                   (Value *const[]){rows, shape, NULL}, stem);
        node_set_input(node, i,
                       upgrade_node(upgrade, node, node, "Reshape", OPSET,
                                    (Value *const[]){wide, flat, NULL}, stem));
    }
}

/* ---- LpPool, GlobalLpPool -------------------------------------------------------------------- */

/* 1 -> 2: p is an integer, and LpPool's kernel must be given. */
bool upgrade_check_lp_power(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "p", err)) return false;
    const Attr *p = node_attr(node, "p");
    float power;
    bool whole = !p || (attr_float(p, &power) && power >= 1.0f && power < 1e6f &&
                        power == (float)(int64_t)power);
    if (!whole) return upgrade_refuse(upgrade, node, err, "'p' must be a whole number");
    if (sym_equals(node->op_type, "LpPool") && !node_attr(node, "kernel_shape"))
        return upgrade_refuse(upgrade, node, err, "'kernel_shape' must be given");
    return true;
}

void upgrade_apply_lp_power(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    float power;
    if (attr_float(node_attr(node, "p"), &power)) node_set_attr_int(node, "p", (int64_t)power);
}

/* ---- Upsample, Resize ------------------------------------------------------------------------ */

/* 1 -> 7: scales of all dimensions instead of two. */
bool upgrade_check_upsample_scales(Upgrade *upgrade, const Node *node, Err *err) {
    return upgrade_check_plain(upgrade, node, "height_scale width_scale mode", err);
}

void upgrade_apply_upsample_scales(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    float scales[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    attr_float(node_attr(node, "height_scale"), &scales[2]);
    attr_float(node_attr(node, "width_scale"), &scales[3]);
    node_remove_attr(node, "height_scale");
    node_remove_attr(node, "width_scale");
    if (upgrade_attr_is(node, "mode", "bilinear")) node_set_attr_string(node, "mode", "linear");
    node_set_attr_floats(node, "scales", scales, 4);
}

typedef enum Scales { SCALES_UP, SCALES_DOWN, SCALES_MIXED } Scales;

static Scales scales_of(Upgrade *upgrade, const Node *node) {
    const Value *value = upgrade_input(node, 1);
    const Tensor *tensor =
        value && value_is_constant(value) ? constant_tensor(value, upgrade->ctx->scratch) : NULL;
    if (upgrade->upsampled == node) return SCALES_UP; /* it allowed no others */
    if (!tensor || tensor->dtype != DTYPE_FLOAT || !tensor_check(tensor, NULL) ||
        tensor_count(tensor) > 64)
        return SCALES_MIXED;
    float scales[64];
    uint64_t count = tensor_count(tensor);
    if (!tensor_read_floats(tensor, 0, count, scales, NULL)) return SCALES_MIXED;
    bool up = true, down = true;
    for (uint64_t i = 0; i < count; i++) {
        up &= scales[i] >= 1.0f;
        down &= scales[i] <= 1.0f;
    }
    return up ? SCALES_UP : down ? SCALES_DOWN : SCALES_MIXED;
}

/* 10 -> 11: what Resize did is asked for: coordinates x / scale and, of the neighbors, the lower
 * one where it enlarges and the upper one where it shrinks. Both at once take two of them. */
bool upgrade_check_resize_coordinates(Upgrade *upgrade, const Node *node, Err *err) {
    return upgrade_check_plain(upgrade, node, "mode", err);
}

/* Shrinks what is to be shrunk in a node before this one, whose scales are then at least 1. */
static void split_resize(Upgrade *upgrade, Node *node) {
    enum { OPSET = 10 };
    Value *x = node->inputs[0].value, *scales = node->inputs[1].value;
    const Tensor *tensor = tensor_new_float_scalar(&upgrade->model->arena, 1.0f);
    Value *one = upgrade_constant(upgrade, node, tensor, "one");
    Value *down = upgrade_node(upgrade, node, node, "Min", OPSET,
                               (Value *const[]){scales, one, NULL}, "shrink");
    Value *up = upgrade_node(upgrade, node, node, "Max", OPSET, (Value *const[]){scales, one, NULL},
                             "enlarge");
    Value *smaller = upgrade_node(upgrade, node, node, "Resize", OPSET,
                                  (Value *const[]){x, down, NULL}, "smaller");
    Node *first = smaller->producer;
    upgrade->added.count--; /* made below, in the form of 11 */
    node_resize_inputs(first, 3);
    node_set_input(first, 2, down);
    Value *roi = upgrade_floats(upgrade, node, NULL, 0, "roi");
    if (roi->producer) node_move_before(roi->producer, first); /* a function has no initializers */
    node_set_input(first, 1, roi);
    node_set_attr_string(first, "coordinate_transformation_mode", "asymmetric");
    node_set_attr_string(first, "nearest_mode", "ceil");
    VEC_PUSH(upgrade->ctx->scratch, &upgrade->added, ((NewNode){first, 11}));
    node_set_input(node, 0, smaller);
    node_set_input(node, 1, up);
}

void upgrade_apply_resize_coordinates(Upgrade *upgrade, Node *node) {
    enum { NO_ROI_OPSET = 13 };
    bool nearest = !node_attr(node, "mode") || upgrade_attr_is(node, "mode", "nearest");
    Scales scales = scales_of(upgrade, node);
    if (nearest && scales == SCALES_MIXED) split_resize(upgrade, node);
    Value *factors = upgrade_input(node, 1);
    upgrade_set_input(node, 2, factors);
    bool roi = upgrade->to < NO_ROI_OPSET;
    node_set_input(node, 1, roi ? upgrade_floats(upgrade, node, NULL, 0, "roi") : NULL);
    node_set_attr_string(node, "coordinate_transformation_mode", "asymmetric");
    if (nearest)
        node_set_attr_string(node, "nearest_mode", scales == SCALES_DOWN ? "ceil" : "floor");
}

/* 11 -> 13: scales and sizes exclude each other, and tf_half_pixel_for_nn is gone: it is half_pixel
 * with 0.5 more, so rounding that down is rounding half_pixel's to the nearest. */
bool upgrade_check_resize_operands(Upgrade *upgrade, const Node *node, Err *err) {
    if (!upgrade_check_plain(upgrade, node, "coordinate_transformation_mode mode nearest_mode",
                             err))
        return false;
    if (!upgrade_attr_is(node, "coordinate_transformation_mode", "tf_half_pixel_for_nn"))
        return true;
    bool nearest = !node_attr(node, "mode") || upgrade_attr_is(node, "mode", "nearest");
    bool rounds = !node_attr(node, "nearest_mode") ||
                  upgrade_attr_is(node, "nearest_mode", "floor") ||
                  upgrade_attr_is(node, "nearest_mode", "round_prefer_floor");
    if (nearest && rounds) return true;
    return upgrade_refuse(upgrade, node, err,
                          "tf_half_pixel_for_nn has no successor for its modes");
}

void upgrade_apply_resize_operands(Upgrade *upgrade, Node *node) {
    (void)upgrade;
    if (upgrade_input(node, 3)) node_set_input(node, 2, NULL);
    if (!upgrade_attr_is(node, "coordinate_transformation_mode", "tf_half_pixel_for_nn")) return;
    bool floor = upgrade_attr_is(node, "nearest_mode", "floor");
    node_set_attr_string(node, "coordinate_transformation_mode", "half_pixel");
    node_set_attr_string(node, "nearest_mode", floor ? "round_prefer_ceil" : "ceil");
}
