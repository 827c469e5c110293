// SPDX-License-Identifier: Apache-2.0
/* Activations in a graph, in the spellings that fused kernels know; see fuse_graph.h.
 *
 *     Relu, Sigmoid, Tanh, HardSwish, LeakyRelu, HardSigmoid, Clip by constant bounds
 *     Gelu (also demi.fused's), Swish with alpha 1
 *     Mul (x, Sigmoid (x))                          Silu
 *     Mul (x, HardSigmoid <1/6, 1/2> (x))           HardSwish
 *     Mul (x, Clip (x + 3, 0, 6)) / 6               HardSwish; the division, or a product with 1/6,
 *                                                   may be on either side of the product
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "fuse_graph.h"

/* Bounds of version 6 have float's largest numbers as defaults; a bound must be a constant. */
static bool read_clip(const Node *clip, FuseActivation *found) {
    int64_t opset = fuse_opset(clip);
    float wide = opset >= 6 && opset < 11 ? FLT_MAX : HUGE_VALF;
    found->param_count = 2;
    if (opset < 11)
        return fuse_attr_float(clip, "min", -wide, &found->params[0]) &&
               fuse_attr_float(clip, "max", wide, &found->params[1]);
    found->params[0] = -HUGE_VALF, found->params[1] = HUGE_VALF;
    for (uint32_t i = 0; i < 2; i++) {
        const Value *bound = fuse_input(clip, i + 1);
        if (bound && !fuse_scalar(bound, &found->params[i])) return false;
    }
    return true;
}

static bool read_hard_sigmoid(const Node *node, FuseActivation *found) {
    found->param_count = 2;
    return fuse_attr_float(node, "alpha", 0.2f, &found->params[0]) &&
           fuse_attr_float(node, "beta", 0.5f, &found->params[1]);
}

/* What the node itself is; its parameters go to *found. NULL where it is not an activation. */
static const char *name_of(const Node *node, FuseActivation *found) {
    float alpha;
    const OpRecord *record = fuse_record(node);
    if (op_record_has(record, OP_EPILOGUE)) return record->name;
    if (fuse_is(node, "LeakyRelu")) {
        found->param_count = 1;
        return fuse_attr_float(node, "alpha", 0.01f, &found->params[0]) ? "LeakyRelu" : NULL;
    }
    if (fuse_is(node, "HardSigmoid")) return read_hard_sigmoid(node, found) ? "HardSigmoid" : NULL;
    if (fuse_is(node, "Clip")) return read_clip(node, found) ? "Clip" : NULL;
    if (fuse_is(node, "Swish"))
        return fuse_attr_float(node, "alpha", 1, &alpha) && alpha == 1 ? "Silu" : NULL;
    bool fused = sym_equals(node->domain, FUSED_DOMAIN) && sym_equals(node->op_type, "Gelu") &&
                 !node_attr(node, "to");
    if (!fused && !fuse_is(node, "Gelu")) return NULL;
    if (fuse_attr_is(node, "approximate", "none", true)) return "Gelu";
    return fuse_attr_is(node, "approximate", "tanh", false) ? "GeluTanh" : NULL;
}

/* x times a gate of x: both read x, and nothing else does. */
static const char *gated_name(const Fuse *fuse, const Node *gate, FuseActivation *found) {
    const float sixth = 1.0f / 6;
    if (fuse_is(gate, "Sigmoid")) return "Silu";
    if (!fuse_is(gate, "HardSigmoid") || !read_hard_sigmoid(gate, found)) return NULL;
    float slack = fuse->faithful ? 0 : 1e-6f;
    bool swish = fabsf(found->params[0] - sixth) <= slack && found->params[1] == 0.5f;
    found->param_count = 0;
    return swish ? "HardSwish" : NULL;
}

/* The node behind `value` that divides by 6; NULL where there is none. */
static Node *find_sixth(const Value *value) {
    Node *node = fuse_reader(value);
    bool sixth = (fuse_is(node, "Div") && node->inputs[0].value == value &&
                  fuse_is_number(fuse_other(node, value), value, 6)) ||
                 (fuse_is(node, "Mul") && fuse_is_number(fuse_other(node, value), value, 1.0f / 6));
    return sixth ? node : NULL;
}

static Node *find_step(const Value *value, const char *op) {
    Node *node = fuse_reader(value);
    return fuse_is(node, op) ? node : NULL;
}

/* x Clip(x + 3, 0, 6) / 6, from the sum on. */
static bool find_hard_swish(const Value *value, Node *sum, Node *product, FuseActivation *found) {
    FuseActivation bounds = {0};
    if (!fuse_is(sum, "Add") || !fuse_is_number(fuse_other(sum, value), value, 3)) return false;
    Node *clip = find_step(sum->outputs[0], "Clip");
    if (!clip || !read_clip(clip, &bounds) || bounds.params[0] != 0 || bounds.params[1] != 6)
        return false;
    Node *sixth = find_sixth(clip->outputs[0]);
    const Value *gate = sixth ? sixth->outputs[0] : clip->outputs[0];
    if (fuse_reader(gate) != product || fuse_other(product, value) != gate) return false;
    Node *after = sixth ? NULL : find_sixth(product->outputs[0]);
    if (!sixth && !after) return false;
    Node *const nodes[4] = {sum, clip, sixth ? sixth : product, sixth ? product : after};
    memcpy(found->nodes, nodes, sizeof nodes);
    found->node_count = 4;
    found->name = "HardSwish";
    return true;
}

static bool find_gated(const Fuse *fuse, const Value *value, FuseActivation *found) {
    if (value->use_count != 2 || !fuse_is_inner(value)) return false;
    Node *gate = value->uses->node, *product = value->uses->next->node;
    if (fuse_is(gate, "Mul")) {
        Node *swap = gate;
        gate = product, product = swap;
    }
    if (gate == product || !fuse_is(product, "Mul") || gate->output_count != 1 ||
        !gate->outputs[0] || !product->outputs[0])
        return false;
    if (!fuse->faithful && find_hard_swish(value, gate, product, found)) return true;
    if (fuse_other(product, value) != gate->outputs[0] || fuse_reader(gate->outputs[0]) != product)
        return false;
    found->name = gated_name(fuse, gate, found);
    found->nodes[0] = gate, found->nodes[1] = product;
    found->node_count = 2;
    return found->name != NULL;
}

static bool find_activation(const Fuse *fuse, const Value *value, FuseActivation *found) {
    *found = (FuseActivation){0};
    Node *reader = fuse_reader(value);
    if (!reader) return find_gated(fuse, value, found);
    if (fuse_input(reader, 0) != value || reader->output_count != 1 || !reader->outputs[0])
        return false;
    found->name = name_of(reader, found);
    found->nodes[0] = reader;
    found->node_count = 1;
    return found->name != NULL && !isnan(found->params[0]) && !isnan(found->params[1]);
}

/* What is widened before. */
static bool find_wide(const Fuse *fuse, Node *cast, FuseActivation *found) {
    if (!fuse_is_widening(cast) || !find_activation(fuse, cast->outputs[0], found)) return false;
    memmove(&found->nodes[1], found->nodes, found->node_count++ * sizeof found->nodes[0]);
    found->nodes[0] = cast;
    found->widens = true;
    return true;
}

bool fuse_find_activation(const Fuse *fuse, const Value *value, FuseActivation *found) {
    *found = (FuseActivation){0};
    if (!fuse_takes(value) || (fuse->faithful && type_dtype(value->type) != DTYPE_FLOAT))
        return false;
    return find_wide(fuse, fuse_reader(value), found) || find_activation(fuse, value, found);
}

void fuse_set_activation(Node *node, const FuseActivation *activation) {
    if (!activation->name) return;
    if (activation->widens) node_set_attr_int(node, "to", DTYPE_FLOAT);
    node_set_attr_string(node, "activation", activation->name);
    if (activation->param_count)
        node_set_attr_floats(node, "activation_params", activation->params,
                             activation->param_count);
}
