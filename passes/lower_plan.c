// SPDX-License-Identifier: Apache-2.0
/* lower-plan: writes the model as a plan (runtime/plan.h), for the runtime to execute.
 *
 * Before: a graph of nodes.  After: the same model; the plan went to the pipeline's artifact sink.
 *
 * Every node becomes a step, in the graph's order, and every graph of a node a graph of the plan.
 * Calls of the model's functions are replaced by their bodies, each call's on its own: types and
 * shapes are inferred for that call, and attributes that refer to the function's parameters are looked up in
 * it. Constants go to the plan's data, sparse ones made dense; they are read only when it is
 * written, but for those that fold=true computes with (runtime/plan_fold.c). A sink that maps files
 * has them stay there, where kernels can read them so. What calls and sparse
 * constants make of a model has a bound (call_size.h), which counts before anything is made.
 */
#include <stddef.h>
#include <string.h>

#include "call_size.h"
#include "checked.h"
#include "constants.h"
#include "infer_dtypes.h"
#include "infer_shapes.h"
#include "lower_plan.h"
#include "op_types.h"
#include "passes.h"
#include "plan.h"
#include "shape_args.h"
#include "source.h"
#include "verify.h"

enum { DEPTH_MAX = 300, STEP_BYTES = 128 }; /* of graphs and calls in each other; without lists */
enum { FEW = 8 };        /* items that need no memory of the arena's on their way to the plan */
enum { ROOM_SHARE = 4 }; /* tables that grow are there twice, and plans are written */

typedef VEC(PlanStep) Steps;

typedef struct Lower {
    PassCtx *ctx;
    Model *model;
    PlanBuilder b;
    uint32_t *value_of;     /* by value id: the plan's value; PLAN_NONE where there is none yet */
    uint32_t *constant_of;  /* the same of constants, which functions' calls share */
    const CallFrame *frame; /* of the body that is being lowered, or NULL */
    InferCalls *calls;
    ShapeCalls *shapes;
    unsigned depth; /* of graphs and calls that are being lowered */
    bool again;     /* a function's body, or a graph that a call gives it: there may be more */
    uint64_t room;  /* bytes that calls and sparse constants may still make */
    Err *err;
} Lower;

static bool lower_nodes(Lower *l, const Graph *graph, Steps *steps);

/* ---- values ---------------------------------------------------------------------------------- */

static uint8_t kind_of(const Type *type) {
    if (!type || type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE_TENSOR) return PLAN_TENSOR;
    if (type->kind == TYPE_SEQUENCE) return PLAN_SEQUENCE;
    if (type->kind != TYPE_OPTIONAL) return PLAN_TENSOR;
    return type->elem && type->elem->kind == TYPE_SEQUENCE ? PLAN_OPTIONAL_SEQUENCE : PLAN_OPTIONAL;
}

static uint32_t sym_of(Lower *l, Sym name) {
    return plan_add_text(&l->b, sym_text(name), name ? name->length : 0);
}

static void set_dims(Lower *l, PlanValue *value, const Type *type) {
    while (type && (type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL)) type = type->elem;
    value->rank = PLAN_NONE;
    if (!type || !type->has_shape || type->rank > PLAN_RANK_LIMIT) return;
    int64_t few[FEW], *dims = few;
    if (type->rank > FEW) dims = ARENA_ARRAY(l->ctx->scratch, int64_t, type->rank);
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        dims[i] = dim->kind == DIM_KNOWN && dim->size >= 0 ? dim->size : -1;
        if (dim_is_named(dim)) dims[i] = -2 - (int64_t)sym_of(l, dim->symbol);
    }
    value->rank = type->rank;
    value->dims = plan_add_numbers(&l->b, dims, type->rank);
}

static uint32_t add_value(Lower *l, Sym name, const Type *type) {
    Dtype dtype = type_dtype(type);
    PlanValue value = {.name = sym_of(l, name),
                       .kind = kind_of(type),
                       .dtype = (uint8_t)dtype,
                       .data = PLAN_NO_DATA};
    set_dims(l, &value, type);
    VEC_PUSH(l->ctx->scratch, &l->b.values, value);
    return (uint32_t)l->b.values.count - 1;
}

/* ---- what may be made ------------------------------------------------------------------------ */

static bool too_large(Lower *l) {
    return err_set(l->err, ERR_MODEL,
                   "function calls or sparse constants would expand it beyond the limit");
}

/* Counts bytes that are about to be made, where they are more than the model itself has. */
static bool take_room(Lower *l, bool more, uint64_t bytes) {
    if (!more) return true;
    if (bytes > l->room) return too_large(l);
    l->room -= bytes;
    return true;
}

static bool enter(Lower *l) {
    if (l->depth++ < DEPTH_MAX) return true;
    return err_set(l->err, ERR_MODEL, "graphs and function calls are nested more than %d deep",
                   DEPTH_MAX);
}

/* ---- constants ------------------------------------------------------------------------------- */

static bool read_tensor(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    return tensor_read_raw(data, offset, buffer, size, err);
}

static bool read_memory(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)err;
    if (size) memcpy(buffer, (const char *)data + offset, size);
    return true;
}

/* The plan's value for data of these dims, which stand in memory. */
static uint32_t add_memory(Lower *l, Dtype dtype, const int64_t *dims, uint32_t rank, void *bytes,
                           uint64_t size) {
    PlanValue value = {.dtype = (uint8_t)dtype,
                       .rank = rank,
                       .dims = plan_add_numbers(&l->b, dims, rank),
                       .data = PLAN_NO_DATA};
    VEC_PUSH(l->ctx->scratch, &l->b.values, value);
    uint32_t number = (uint32_t)l->b.values.count - 1;
    plan_set_data(&l->b, number, size, read_memory, bytes);
    return number;
}

static uint32_t add_strings(Lower *l, const Bytes *strings, const int64_t *dims, uint32_t rank,
                            uint64_t count) {
    uint32_t *texts = ARENA_ARRAY(l->ctx->scratch, uint32_t, count + 1);
    for (uint64_t i = 0; i < count; i++)
        texts[i] = plan_add_text(&l->b, (const char *)strings[i].data, (size_t)strings[i].size);
    return add_memory(l, DTYPE_STRING, dims, rank, texts, count * sizeof *texts);
}

/* Elements of less than a byte get one each. */
static bool add_narrow(Lower *l, const Tensor *tensor, uint64_t count, uint32_t *number) {
    unsigned bits = dtype_bits((Dtype)tensor->dtype);
    uint64_t packed = tensor_raw_size(tensor);
    unsigned char *from = arena_alloc(l->ctx->scratch, packed + 2);
    unsigned char *to = arena_alloc(l->ctx->scratch, count + 1);
    if (!tensor_read_raw(tensor, 0, from, packed, l->err)) return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i * bits;
        unsigned both = from[at / 8] | (unsigned)from[at / 8 + 1] << 8;
        to[i] = (unsigned char)(both >> at % 8 & ((1u << bits) - 1));
    }
    *number = add_memory(l, (Dtype)tensor->dtype, tensor->dims, tensor->rank, to, count);
    return true;
}

/* What of a constant goes into the plan: of one that is 16 bit widened, the 16 bit, but for small
 * ones, which are not worth it. */
static const Tensor *stored_tensor(const Tensor *tensor) {
    enum { SMALL = 1024 };
    const Tensor *of = tensor->cast_of;
    bool narrow = of && dtype_is_reduced(of->dtype);
    return narrow && tensor->dtype == DTYPE_FLOAT && tensor_count(tensor) > SMALL ? of : tensor;
}

/* `again`: not for the first time. */
static bool add_tensor(Lower *l, const Tensor *tensor, bool again, uint32_t *number) {
    if (!tensor) return err_set(l->err, ERR_MODEL, "a tensor is missing");
    if (!tensor_check(tensor, l->err)) return false;
    const Tensor *data = stored_tensor(tensor);
    if (!take_room(l, again, tensor_raw_size(data))) return false;
    Dtype dtype = (Dtype)tensor->dtype;
    uint64_t count = tensor_count(tensor);
    if (dtype == DTYPE_STRING) {
        *number = add_strings(l, tensor->strings, tensor->dims, tensor->rank, count);
        return true;
    }
    if (dtype_bits(dtype) < 8) return add_narrow(l, tensor, count, number);
    PlanValue value = {.dtype = (uint8_t)dtype,
                       .stored = data == tensor ? 0 : (uint8_t)data->dtype,
                       .rank = tensor->rank,
                       .dims = plan_add_numbers(&l->b, tensor->dims, tensor->rank),
                       .data = PLAN_NO_DATA};
    VEC_PUSH(l->ctx->scratch, &l->b.values, value);
    *number = (uint32_t)l->b.values.count - 1;
    plan_set_data(&l->b, *number, tensor_raw_size(data), read_tensor, (void *)(uintptr_t)data);
    const bool is_raw = data->storage == TENSOR_RAW || data->storage == TENSOR_EXTERNAL;
    if (is_raw && data->source && !data->cast_of) plan_note_file(&l->b, data->source, data->offset);
    return true;
}

static bool flat_index(const SparseTensor *sparse, const int64_t *indices, uint64_t i, bool linear,
                       uint64_t *index) {
    *index = 0;
    for (uint32_t k = 0; k < (linear ? 1 : sparse->rank); k++) {
        int64_t at = indices[linear ? i : i * sparse->rank + k];
        if (at < 0 || (!linear && at >= sparse->dims[k])) return false;
        *index = linear ? (uint64_t)at : *index * (uint64_t)sparse->dims[k] + (uint64_t)at;
    }
    return true;
}

/* A sparse tensor as a dense one: indices are linear (rank 1) or one row of coordinates an
 * element. */
static bool add_sparse(Lower *l, const SparseTensor *sparse, uint32_t *number) {
    const Tensor *values = sparse ? sparse->values : NULL, *where = sparse ? sparse->indices : NULL;
    uint64_t count, entries, bytes, index;
    int64_t *indices;
    if (!values || !where || !tensor_check(values, l->err) || !tensor_check(where, l->err) ||
        !checked_count(sparse->dims, sparse->rank, &count))
        return err_set(l->err, ERR_MODEL, "a sparse tensor is incomplete");
    uint64_t size = dtype_bits((Dtype)values->dtype) / 8, stored = tensor_count(values);
    if (!size || !checked_mul(count, size, &bytes) || bytes > INT32_MAX ||
        !tensor_read_ints(where, l->ctx->scratch, INT32_MAX, &indices, &entries))
        return err_set(l->err, ERR_MODEL, "a sparse tensor of this type or size");
    if (!take_room(l, true, bytes)) return false;
    bool linear = where->rank == 1;
    if (entries != stored * (linear ? 1 : sparse->rank))
        return err_set(l->err, ERR_MODEL, "a sparse tensor's indices do not fit its values");
    char *dense = arena_alloc(l->ctx->scratch, bytes + 1);
    char *given = arena_alloc(l->ctx->scratch, stored * size + 1);
    if (!tensor_read_raw(values, 0, given, stored * size, l->err)) return false;
    for (uint64_t i = 0; i < stored; i++) {
        if (!flat_index(sparse, indices, i, linear, &index) || index >= count)
            return err_set(l->err, ERR_MODEL, "a sparse tensor's index is out of range");
        memcpy(dense + index * size, given + i * size, size);
    }
    *number = add_memory(l, (Dtype)values->dtype, sparse->dims, sparse->rank, dense, bytes);
    return true;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* What an attribute of a node is in the call at hand, and the call that gave it. */
typedef struct Given {
    const Attr *attr; /* NULL: absent */
    const CallFrame *frame;
    bool own; /* no parameter of a function: the same in every call */
} Given;

static bool resolve(Lower *l, const Node *node, const Attr *attr, Given *given) {
    given->frame = l->frame;
    given->own = !attr->ref;
    given->attr = call_attr(&given->frame, attr);
    bool untyped = attr->ref && !attr->has_type;
    if (!given->attr || untyped || given->attr->type == attr->type) return true;
    node_error(node, l->err, ERR_MODEL, "a call passes an attribute of a different type");
    err_operand(l->err, "attribute '%s'", sym_text(attr->name));
    err_expected(l->err, "%s", attr_type_name(attr->type));
    err_actual(l->err, "%s", attr_type_name(given->attr->type));
    return false;
}

static bool lower_graph(Lower *l, const Graph *graph, uint32_t *number);

/* The graph of an attribute, whose own attributes may stand for parameters of the call that gave
 * it. */
static bool lower_body(Lower *l, const Given *given, uint32_t *number) {
    const Graph *graph = attr_graph(given->attr);
    const CallFrame *frame = l->frame;
    bool again = l->again;
    if (!graph || !graph->owner)
        return err_set(l->err, ERR_MODEL, "an attribute's graph is missing, or is a default value");
    l->frame = given->frame;
    l->again |= !given->own;
    bool ok = lower_graph(l, graph, number);
    l->frame = frame;
    l->again = again;
    return ok;
}

static uint32_t add_texts(Lower *l, const Bytes *strings, uint32_t count) {
    uint32_t *texts = ARENA_ARRAY(l->ctx->scratch, uint32_t, count + 1);
    for (uint32_t i = 0; i < count; i++)
        texts[i] = plan_add_text(&l->b, (const char *)strings[i].data, (size_t)strings[i].size);
    return plan_add_operands(&l->b, texts, count).first;
}

/* False with *skip set where the attribute says nothing that a plan needs. */
static bool lower_attr(Lower *l, const Given *given, PlanAttr *to, bool *skip) {
    const Attr *attr = given->attr;
    uint32_t bits, number = 0;
    int64_t whole = 0;
    float real = 0;
    Bytes text = {0};
    switch (attr->type) {
    case ATTR_INT:
        attr_int(attr, &whole);
        to->kind = PLAIN_INT, to->value = whole;
        return true;
    case ATTR_FLOAT:
        attr_float(attr, &real);
        memcpy(&bits, &real, sizeof bits);
        to->kind = PLAIN_FLOAT, to->value = bits;
        return true;
    case ATTR_STRING:
        attr_string(attr, &text);
        to->kind = PLAIN_TEXT;
        to->value = plan_add_text(&l->b, (const char *)text.data, (size_t)text.size);
        return true;
    case ATTR_INTS:
        to->kind = PLAIN_INTS;
        to->value = plan_add_numbers(&l->b, attr_ints(attr, &to->count), attr->count);
        return true;
    case ATTR_FLOATS:
        to->kind = PLAIN_FLOATS;
        to->value = plan_add_floats(&l->b, attr_floats(attr, &to->count), attr->count);
        return true;
    case ATTR_STRINGS:
        to->kind = PLAIN_TEXTS;
        to->value = add_texts(l, attr_strings(attr, &to->count), attr->count);
        return true;
    case ATTR_TENSOR:
    case ATTR_SPARSE_TENSOR:
        to->kind = PLAIN_TENSOR;
        if (attr->type == ATTR_TENSOR ? !add_tensor(l, attr_tensor(attr), l->again, &number)
                                      : !add_sparse(l, attr_sparse(attr), &number))
            return false;
        to->value = number;
        return true;
    case ATTR_GRAPH:
        to->kind = PLAIN_GRAPH;
        if (!lower_body(l, given, &number)) return false;
        to->value = number;
        return true;
    case ATTR_UNDEFINED:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPE: /* outputs' types are in the plan */
    case ATTR_TYPES: break;
    }
    *skip = true;
    return false;
}

static bool lower_attrs(Lower *l, const Node *node, PlanSpan *span) {
    VEC(PlanAttr) attrs = {0};
    for (const Attr *named = node->attrs; named; named = named->next) {
        Given given;
        bool skip = false;
        if (!resolve(l, node, named, &given)) return false;
        if (!given.attr) continue;
        PlanAttr lowered = {.name = sym_of(l, named->name), .count = given.attr->count};
        if (!take_room(l, l->again, sizeof lowered + 8 * (uint64_t)given.attr->count)) return false;
        if (lower_attr(l, &given, &lowered, &skip))
            VEC_PUSH(l->ctx->scratch, &attrs, lowered);
        else if (!skip)
            return false;
    }
    *span = (PlanSpan){(uint32_t)l->b.attrs.count, (uint32_t)attrs.count};
    for (size_t i = 0; i < attrs.count; i++) VEC_PUSH(l->ctx->scratch, &l->b.attrs, attrs.items[i]);
    return true;
}

/* ---- operands -------------------------------------------------------------------------------- */

static bool initializer(Lower *l, const Value *value, uint32_t *number) {
    if (l->constant_of[value->id] == PLAN_NONE) {
        bool ok = value->init ? add_tensor(l, value->init, false, number)
                              : add_sparse(l, value->sparse_init, number);
        if (!ok) {
            err_operand(l->err, "initializer '%s'", sym_text(value->name));
            return false;
        }
        l->b.values.items[*number].name = sym_of(l, value->name);
        l->constant_of[value->id] = *number;
    }
    *number = l->constant_of[value->id];
    return true;
}

static bool operand(Lower *l, const Node *node, const Value *value, uint32_t *number) {
    *number = PLAN_NONE;
    if (!value) return true;
    *number = l->value_of[value->id];
    if (*number != PLAN_NONE) return true;
    if ((value->init || value->sparse_init) && !value->input) return initializer(l, value, number);
    /* a formal that the call leaves out reaches the body as an omitted operand */
    if (value->graph->function && value->input) return true;
    return node_error(node, l->err, ERR_MODEL, "it reads '%s', which nothing defines",
                      sym_text(value->name));
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* The plan's value for what an attribute of a Constant holds; *number stays where it is none. */
static bool add_constant(Lower *l, const Given *given, uint32_t *number) {
    const Attr *attr = given->attr;
    uint32_t count = 0;
    int64_t whole;
    float real;
    Bytes text;
    if (attr->type == ATTR_TENSOR) return add_tensor(l, attr_tensor(attr), !given->own, number);
    if (attr->type == ATTR_SPARSE_TENSOR) return add_sparse(l, attr_sparse(attr), number);
    if (!take_room(l, !given->own, 8 * (uint64_t)attr->count)) return false;
    const float *floats = attr_floats(attr, &count);
    const int64_t *ints = floats ? NULL : attr_ints(attr, &count);
    const Bytes *strings = floats || ints ? NULL : attr_strings(attr, &count);
    const int64_t length = count;
    Arena *scratch = l->ctx->scratch;
    if (attr_float(attr, &real))
        *number = add_memory(l, DTYPE_FLOAT, NULL, 0, arena_copy(scratch, &real, sizeof real),
                             sizeof real);
    else if (attr_int(attr, &whole))
        *number = add_memory(l, DTYPE_INT64, NULL, 0, arena_copy(scratch, &whole, sizeof whole),
                             sizeof whole);
    else if (attr_string(attr, &text))
        *number = add_strings(l, &text, NULL, 0, 1);
    else if (attr->type == ATTR_FLOATS)
        *number = add_memory(l, DTYPE_FLOAT, &length, 1, (void *)(uintptr_t)floats,
                             count * sizeof *floats);
    else if (attr->type == ATTR_INTS)
        *number =
            add_memory(l, DTYPE_INT64, &length, 1, (void *)(uintptr_t)ints, count * sizeof *ints);
    else if (attr->type == ATTR_STRINGS)
        *number = add_strings(l, strings, &length, 1, count);
    return true;
}

/* A Constant's tensor; its attribute may be a function's parameter. */
static bool lower_constant(Lower *l, const Node *node) {
    const Value *out = node->outputs[0];
    uint32_t number = PLAN_NONE;
    Given given = {.own = true};
    for (const Attr *named = node->attrs; named && !given.attr; named = named->next)
        if (!resolve(l, node, named, &given)) return false;
    if (given.own && l->constant_of[out->id] != PLAN_NONE) {
        l->value_of[out->id] = l->constant_of[out->id];
        return true;
    }
    if (given.attr && !add_constant(l, &given, &number))
        return node_error(node, l->err, ERR_MODEL, "its value cannot be read");
    if (number == PLAN_NONE) return node_error(node, l->err, ERR_MODEL, "it has no value");
    l->b.values.items[number].name = sym_of(l, out->name);
    l->value_of[out->id] = number;
    if (given.own) l->constant_of[out->id] = number;
    return true;
}

static bool lower_step(Lower *l, const Node *node, Steps *steps) {
    Arena *scratch = l->ctx->scratch;
    const uint32_t most =
        node->input_count > node->output_count ? node->input_count : node->output_count;
    uint32_t few[FEW], *numbers = few;
    if (most > FEW) numbers = ARENA_ARRAY(scratch, uint32_t, most);
    const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
    int64_t opset = opset_version(node->graph->opsets, node->domain);
    size_t known = l->b.ops.count; /* what the plan has already was asked for then */
    PlanStep step = {.op = plan_add_op(&l->b, domain, sym_text(node->op_type), opset)};
    if (!opset && *domain) {
        node_error(node, l->err, ERR_MODEL, "the operator's domain is not imported");
        err_expected(l->err, "an opset import of '%s'", domain);
        return false;
    }
    if (step.op == known && !plan_has_operator(domain, sym_text(node->op_type), opset))
        return node_error(node, l->err, ERR_MODEL,
                          "demi's runtime has no such operator%s: %s%s%s at opset %lld",
                          op_record_has(node_record(node), OP_DECOMPOSED) ? " in functions" : "",
                          domain, *domain ? "." : "", sym_text(node->op_type), (long long)opset);
    const char *label = node_label(node);
    step.name = plan_add_text(&l->b, label, strlen(label));
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!operand(l, node, node->inputs[i].value, &numbers[i])) return false;
    step.inputs = plan_add_operands(&l->b, numbers, node->input_count);
    if (!lower_attrs(l, node, &step.attrs)) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *out = node->outputs[i];
        numbers[i] = out ? add_value(l, out->name, out->type) : PLAN_NONE;
        if (out) l->value_of[out->id] = numbers[i];
    }
    step.outputs = plan_add_operands(&l->b, numbers, node->output_count);
    VEC_PUSH(scratch, steps, step);
    return true;
}

/* The body in place of the call: its formals are the call's operands, and its outputs' values
 * become the call's results. */
static bool lower_call(Lower *l, const Node *node, const Function *function, Steps *steps) {
    const Graph *body = function->body;
    CallFrame frame = {.outer = l->frame, .call = node, .function = function};
    uint32_t *actual = ARENA_ARRAY(l->ctx->scratch, uint32_t, body->inputs.count + 1);
    if (!enter(l) || !infer_dtypes_call(l->calls, l->frame, node, l->err) ||
        !infer_shapes_call(l->shapes, l->frame, node, l->err))
        return false;
    for (size_t i = 0; i < body->inputs.count; i++)
        if (!operand(l, node, i < node->input_count ? node->inputs[i].value : NULL, &actual[i]))
            return false;
    for (size_t i = 0; i < body->inputs.count; i++)
        l->value_of[body->inputs.items[i]->id] = actual[i];
    bool again = l->again;
    l->frame = &frame;
    l->again = true;
    bool ok = lower_nodes(l, body, steps);
    l->frame = frame.outer;
    l->again = again;
    for (uint32_t i = 0; ok && i < node->output_count && i < body->outputs.count; i++) {
        uint32_t number;
        const Value *inner = body->outputs.items[i]->use.value;
        if (!node->outputs[i]) continue;
        if (!operand(l, node, inner, &number)) return false;
        l->value_of[node->outputs[i]->id] = number;
    }
    infer_forget_call(function);
    l->depth--;
    return ok;
}

static bool lower_node(Lower *l, const Node *node, Steps *steps) {
    uint64_t operands = (uint64_t)node->input_count + node->output_count * sizeof(PlanValue);
    if (!take_room(l, l->again, STEP_BYTES + operands)) return false;
    const Function *function = model_find_function(l->model, node);
    if (function) return lower_call(l, node, function, steps);
    bool constant = domain_is_default(node->domain) && sym_equals(node->op_type, "Constant") &&
                    node->output_count && node->outputs[0];
    return constant ? lower_constant(l, node) : lower_step(l, node, steps);
}

static bool lower_nodes(Lower *l, const Graph *graph, Steps *steps) {
    for (const Node *node = graph->first; node; node = node_after(node))
        if (!lower_node(l, node, steps)) return false;
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static void lower_inputs(Lower *l, const Graph *graph, PlanGraph *to) {
    uint32_t *numbers = ARENA_ARRAY(l->ctx->scratch, uint32_t, graph->inputs.count + 1);
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.items[i];
        numbers[i] = add_value(l, value->name, value->type);
        l->value_of[value->id] = numbers[i];
    }
    to->inputs = plan_add_operands(&l->b, numbers, graph->inputs.count);
}

/* Initializers of the main graph that are inputs too: what holds where the caller sets nothing. */
static bool lower_defaults(Lower *l, const Graph *graph, PlanGraph *to) {
    uint32_t *numbers = ARENA_ARRAY(l->ctx->scratch, uint32_t, graph->inputs.count + 1);
    bool any = false;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.items[i];
        numbers[i] = PLAN_NONE;
        if (!value->init && !value->sparse_init) continue;
        if (!initializer(l, value, &numbers[i])) return false;
        any = true;
    }
    if (any) to->defaults = plan_add_operands(&l->b, numbers, graph->inputs.count);
    return true;
}

/* Callers know the model's outputs by their names, while a call's results have those that they have in
 * the function, which all its calls share. What is `taken`, an input or another output, and what is a
 * constant, is copied by a step of its own. */
static uint32_t name_output(Lower *l, const Value *value, uint32_t number, bool taken,
                            Steps *steps) {
    enum { ANY_TYPE = 19 }; /* the opset from which on Identity takes all that plans hold */
    const uint32_t name = sym_of(l, value->name);
    if (l->b.values.items[number].name == name) return number;
    if (!taken && l->b.values.items[number].data == PLAN_NO_DATA) {
        l->b.values.items[number].name = name;
        return number;
    }
    const uint32_t copy = add_value(l, value->name, value->type);
    const PlanStep step = {.op = plan_add_op(&l->b, "", "Identity", ANY_TYPE),
                           .name = name,
                           .inputs = plan_add_operands(&l->b, &number, 1),
                           .outputs = plan_add_operands(&l->b, &copy, 1)};
    VEC_PUSH(l->ctx->scratch, steps, step);
    return copy;
}

static bool lower_outputs(Lower *l, const Graph *graph, PlanGraph *to, Steps *steps) {
    const size_t values = l->b.values.count;
    uint32_t *numbers = ARENA_ARRAY(l->ctx->scratch, uint32_t, graph->outputs.count + 1);
    bool *taken = graph->owner ? NULL : ARENA_ARRAY(l->ctx->scratch, bool, values + 1);
    for (size_t i = 0; taken && i < graph->inputs.count; i++)
        taken[l->value_of[graph->inputs.items[i]->id]] = true;
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.items[i]->use.value;
        uint32_t number = l->value_of[value->id];
        if (number == PLAN_NONE && (value->init || value->sparse_init) &&
            !initializer(l, value, &number))
            return false;
        if (number == PLAN_NONE) {
            err_set(l->err, ERR_MODEL, "output '%s' is not defined", sym_text(value->name));
            err_graph(l->err, graph);
            return false;
        }
        numbers[i] = number;
        if (!taken || number >= values) continue; /* an initializer has its name */
        numbers[i] = name_output(l, value, number, taken[number], steps);
        taken[number] = true;
    }
    to->outputs = plan_add_operands(&l->b, numbers, graph->outputs.count);
    return true;
}

/* Behind those that the plan has, or as all it has. */
static void add_steps(Lower *l, const Steps *steps) {
    if (!l->b.steps.count) {
        l->b.steps.items = steps->items;
        l->b.steps.count = steps->count;
        l->b.steps.capacity = steps->capacity;
        return;
    }
    for (size_t i = 0; i < steps->count; i++)
        VEC_PUSH(l->ctx->scratch, &l->b.steps, steps->items[i]);
    arena_release(l->ctx->scratch, steps->items, steps->capacity * sizeof *steps->items);
}

/* Steps of a graph lie together, those of the graphs inside it before them. */
static bool lower_graph(Lower *l, const Graph *graph, uint32_t *number) {
    PlanGraph lowered = {.name = sym_of(l, graph->name)};
    Steps steps = {0};
    if (!enter(l)) return false;
    *number = (uint32_t)l->b.graphs.count;
    VEC_PUSH(l->ctx->scratch, &l->b.graphs, lowered);
    lower_inputs(l, graph, &lowered);
    if (*number == 0 && !lower_defaults(l, graph, &lowered)) return false;
    if (!lower_nodes(l, graph, &steps) || !lower_outputs(l, graph, &lowered, &steps)) return false;
    lowered.steps = (PlanSpan){(uint32_t)l->b.steps.count, (uint32_t)steps.count};
    add_steps(l, &steps);
    l->b.graphs.items[*number] = lowered;
    l->depth--;
    return true;
}

/* ---- some nodes alone ------------------------------------------------------------------------ */

static void start(Lower *l) {
    const uint32_t count = l->model->value_count;
    plan_builder_init(&l->b, l->ctx->scratch);
    l->value_of = ARENA_ARRAY(l->ctx->scratch, uint32_t, count + 1);
    l->constant_of = ARENA_ARRAY(l->ctx->scratch, uint32_t, count + 1);
    for (uint32_t i = 0; i < count; i++) l->value_of[i] = l->constant_of[i] = PLAN_NONE;
    l->room = call_size_room(l->model, l->ctx->scratch);
}

bool lower_plan_has(const Node *node) {
    const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
    return plan_has_operator(domain, sym_text(node->op_type),
                             opset_version(node->graph->opsets, node->domain));
}

/* The constant that the plan has for what was a node's output; NULL in *tensor where it has none. */
static bool take_result(Lower *l, const PlanValue *value, const Tensor **tensor) {
    bool whole = value->kind == PLAN_TENSOR && value->data != PLAN_NO_DATA && !value->stored &&
                 dtype_bits((Dtype)value->dtype) >= 8;
    if (!whole) return true;
    const PlanConstant *constant = plan_constant_of(&l->b, value);
    void *bytes = arena_alloc(l->ctx->scratch, (size_t)constant->size + 1);
    if (!constant->read(constant->data, 0, bytes, constant->size, l->err)) return false;
    *tensor = tensor_new_raw(&l->model->arena, (Dtype)value->dtype,
                             l->b.numbers.items + value->dims, value->rank, bytes, constant->size);
    return true;
}

bool lower_plan_execute(PassCtx *ctx, const LoweredNodes *lowered, const Tensor **results,
                        Err *err) {
    Lower l = {.ctx = ctx, .model = ctx->model, .err = err};
    PlanGraph graph = {0};
    Steps steps = {0};
    uint32_t *outputs = ARENA_ARRAY(ctx->scratch, uint32_t, lowered->wanted_count + 1);
    start(&l);
    graph.name = sym_of(&l, NULL);
    l.b.numerics = PLAN_FAITHFUL;
    for (size_t i = 0; i < lowered->count; i++)
        if (!lower_node(&l, lowered->nodes[i], &steps)) return false;
    for (size_t i = 0; i < lowered->wanted_count; i++)
        outputs[i] = l.value_of[lowered->wanted[i]->id];
    graph.outputs = plan_add_operands(&l.b, outputs, lowered->wanted_count);
    graph.steps.count = (uint32_t)steps.count;
    for (size_t i = 0; i < steps.count; i++) VEC_PUSH(ctx->scratch, &l.b.steps, steps.items[i]);
    VEC_PUSH(ctx->scratch, &l.b.graphs, graph);
    if (!plan_fold(&l.b, err)) return false;
    for (size_t i = 0; i < lowered->wanted_count; i++) {
        uint32_t number = l.b.operands.items[l.b.graphs.items[0].outputs.first + i];
        const Value *value = lowered->wanted[i];
        if (!take_result(&l, &l.b.values.items[number], &results[value->id])) return false;
    }
    return true;
}

/* ---- the pass -------------------------------------------------------------------------------- */

static const char *const numerics_names[] = {
    [PLAN_FAST] = "fast", [PLAN_FAITHFUL] = "faithful", NULL};

/* After them, "native". */
static const char *const isa_names[] = {
    [PLAN_ISA_NONE] = "none",     [PLAN_ISA_PORTABLE] = "portable", [PLAN_ISA_AVX2] = "avx2",
    [PLAN_ISA_AVX512] = "avx512", [PLAN_ISA_COUNT] = "native",      NULL};

typedef struct LowerPlanOptions {
    int numerics, isa;
    bool fold, small;
    int64_t memory;
} LowerPlanOptions;

static const PassOption options_table[] = {
    {"numerics", OPTION_CHOICE, offsetof(LowerPlanOptions, numerics), numerics_names, "fast",
     "numerics to record in the plan; faithful if the passes before did not change any rounding"},
    {"fold", OPTION_BOOL, offsetof(LowerPlanOptions, fold), NULL, NULL,
     "compute what depends only on constants, and store the results"},
    {"small", OPTION_BOOL, offsetof(LowerPlanOptions, small), NULL, NULL,
     "memory mode to record in the plan: 16-bit values are kept in 16-bit"},
    {"isa", OPTION_CHOICE, offsetof(LowerPlanOptions, isa), isa_names, "none",
     "pack weights for this machine's instruction set, or for the given one"},
    {"memory", OPTION_INT, offsetof(LowerPlanOptions, memory), NULL, NULL,
     "limit in bytes for function calls, sparse constants, and results; 0: proportional to the "
     "model"},
    {0},
};

static bool write_plan(PlanBuilder *b, const ArtifactSink *sink, Err *err) {
    b->maps = sink->map != NULL;
    if (!plan_pack(b, err)) return false;
    if (b->files.count &&
        !sink->map(sink->data, plan_set_files(b), b->files.items, b->files.count, err))
        return false;
    return plan_write(b, sink->write, sink->data, err);
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const LowerPlanOptions *options = opts;
    Model *model = ctx->model;
    Lower l = {.ctx = ctx, .model = model, .err = err};
    uint32_t first;
    start(&l);
    l.b.numerics = (PlanNumerics)options->numerics;
    l.b.small = options->small;
    l.b.isa = options->isa == PLAN_ISA_COUNT ? plan_isa_here() : (PlanIsa)options->isa;
    l.b.budget = options->memory > 0 ? (uint64_t)options->memory : 0;
    if (l.b.budget && l.room > l.b.budget / ROOM_SHARE) l.room = l.b.budget / ROOM_SHARE;
    uint64_t expanded = call_size_expanded(model, ctx->scratch), most = l.room / STEP_BYTES;
    if (expanded > most) {
        err_set(err, ERR_MODEL, "inlining function calls makes too many nodes");
        err_expected(err, "at most %llu", (unsigned long long)most);
        err_actual(err, "%llu%s", (unsigned long long)expanded,
                   expanded == UINT64_MAX ? " or more" : "");
        return false;
    }
    if (model->functions.count && !infer_shapes_through_calls(ctx, err)) return false;
    if (model->functions.count) { /* else there are no calls */
        l.calls = infer_calls_new(ctx);
        l.shapes = shape_calls_new(ctx);
    }
    if (!lower_graph(&l, model->graph, &first)) return false;
    if (!ctx->artifact) return true;
    if (model->source && !source_hash(model->source, ctx->scratch, l.b.source, err)) return false;
    if (ctx->spends) model_empty(model); /* of it the plan reads constants alone */
    if (options->fold && !plan_fold(&l.b, err)) return false;
    return write_plan(&l.b, ctx->artifact, err);
}

const PassInfo lower_plan_pass = {
    .name = "lower-plan",
    .summary = "write the model as an execution plan for demi's runtime",
    .needs = FACT_DTYPES,
    .breaks = FACT_DTYPES, /* bodies of functions have some call's types */
    .options = options_table,
    .options_size = sizeof(LowerPlanOptions),
    .idempotent = true,
    .run = run,
};
