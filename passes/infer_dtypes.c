// SPDX-License-Identifier: Apache-2.0
/* infer-dtypes: makes the element type of every value exact.
 *
 * Before: values carry what the file declares, which may be missing or stale. After: every value
 * whose type follows from the graph inputs, the constants and the operators' schemas has it, in all
 * subgraphs and functions; only outputs of unknown operators keep what was declared, or nothing.
 * Shapes are not looked at; declared ones stay.
 *
 * Declarations are not edited: a stale value_info entry is corrected when something writes the
 * model for another reason (value_sync_info). A function body gets types only where all its call
 * sites agree on them; where they do not, its values are left without type and nothing will touch
 * them.
 *
 * A body is inferred once for each list of input types it is called with, so that call trees cost
 * what they differ by. Where types depend on attributes, each call of its own counts, up to a
 * budget; what calls past it give has no type.
 */
#include <stdio.h>
#include <string.h>

#include "ops.h"
#include "op_facts.h"
#include "op_types.h"
#include "infer_dtypes.h"
#include "passes.h"
#include "setting_names.h"

typedef struct InferDtypesOptions {
    PassStrings inputs; /* NAME=DTYPE */
} InferDtypesOptions;

#define OF_INFER_DTYPES(kind, name, member, choices, otherwise, help)                              \
    {name, OPTION_##kind, offsetof(InferDtypesOptions, member), choices, otherwise, help},
static const PassOption options_table[] = {
#include "policy.def"
    {0},
};

/* What a function's body gave for some input types. */
typedef struct Signature {
    struct Signature *next;
    const Node *call;
    const Type **inputs, **outputs; /* entries NULL where unknown */
} Signature;

/* What is known of a function while the pass runs. */
typedef struct FunctionState {
    bool mixed, running, by_attributes;
    Signature *signatures; /* the last one first */
} FunctionState;

typedef struct Infer {
    Model *model;
    Arena *arena, *scratch; /* of the model; of the pass */
    Err *err;
    FunctionState *functions; /* beside model->functions */
    VEC(uint32_t) inferred;   /* functions whose state is no longer all zero */
    const CallFrame *frame;   /* of the body that is being inferred, or NULL */
    unsigned depth;           /* of graphs and calls that are being inferred */
    uint64_t budget;          /* nodes that may still be inferred in repeated function bodies */
    const InferHook *hook;    /* may be NULL */
} Infer;

enum { REPEAT_BUDGET = 1000000, DEPTH_MAX = 300, SIGNATURES_LOOKED_AT = 64 };

static bool infer_graph(Infer *infer, Graph *graph);

/* ---- attributes, through the parameters of the function being inferred ----------------------- */

static const Attr *attr_named(const Attr *attrs, Sym name) {
    for (; attrs; attrs = attrs->next)
        if (attrs->name == name) return attrs;
    return NULL;
}

const Attr *call_attr(const CallFrame **frame, const Attr *attr) {
    while (attr && attr->ref && *frame) {
        const CallFrame *at = *frame;
        const Attr *given = attr_named(at->call->attrs, attr->ref);
        attr = given ? given : attr_named(at->function->attribute_protos, attr->ref);
        *frame = at->outer;
    }
    return attr && attr->ref ? NULL : attr;
}

static const Attr *attr_of(Infer *infer, const Node *node, const char *name) {
    const CallFrame *given = infer->frame;
    const Attr *attr = call_attr(&given, node_attr(node, name));
    for (const CallFrame *frame = infer->frame; frame != given; frame = frame->outer)
        infer->functions[frame->function->index].by_attributes = true;
    return attr;
}

static Dtype dtype_of_number(int64_t number) {
    return number > 0 && number < DTYPE_COUNT ? (Dtype)number : DTYPE_UNDEFINED;
}

/* TensorProto.DataType's name in upper case, as Cast.to spelt it before opset 6. */
static Dtype dtype_of_text(const unsigned char *text, size_t size) {
    char name[24];
    if (size >= sizeof name) return DTYPE_UNDEFINED;
    for (size_t i = 0; i < size; i++)
        name[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + 32) : (char)text[i];
    return dtype_from_name(name, size);
}

static Dtype dtype_from_attr(Infer *infer, const Node *node, const OpSchema *schema,
                             const char *name) {
    const Attr *attr = attr_of(infer, node, name);
    int64_t number;
    Bytes text;
    if (attr_int(attr, &number)) return dtype_of_number(number);
    if (attr_string(attr, &text)) return dtype_of_text(text.data, text.size);
    const OpAttr *formal = op_schema_attr(schema, name);
    if (attr || !formal || !formal->has_default || formal->type != ATTR_INT) return DTYPE_UNDEFINED;
    return dtype_of_number(formal->value.i);
}

static bool attr_has_text(Infer *infer, const Node *node, const OpSchema *schema,
                          const OpOutputRule *rule) {
    const Attr *attr = attr_of(infer, node, rule->attr);
    if (attr) return attr_is_text(attr, rule->text);
    const OpAttr *formal = op_schema_attr(schema, rule->attr);
    return formal && formal->has_default && formal->type == ATTR_STRING &&
           strcmp(formal->value.s, rule->text) == 0;
}

static Dtype dtype_from_tensor(const Attr *attr) {
    const SparseTensor *sparse = attr_sparse(attr);
    const Tensor *tensor = sparse ? sparse->values : attr_tensor(attr);
    return tensor ? dtype_of_number(tensor->dtype) : DTYPE_UNDEFINED;
}

static bool attr_is_filled(const Attr *attr) {
    bool list = attr && (attr->type == ATTR_FLOATS || attr->type == ATTR_INTS ||
                         attr->type == ATTR_STRINGS);
    return attr && (!list || attr->count > 0);
}

/* ---- subgraphs ------------------------------------------------------------------------------- */

static bool input_type(const Node *node, size_t i, OpType *type) {
    const Value *value = i < node->input_count ? node->inputs[i].value : NULL;
    return value && op_type_from(value->type, type);
}

static void value_refine(Infer *infer, Value *value, OpType type) {
    value_set_type(value, type_refine(infer->arena, value->type, type));
}

/* Types of the formals before the mapped ones: Loop's iteration number and condition. */
static void set_leading_inputs(Infer *infer, const OpBodySlots *slots, Graph *body) {
    for (int i = 0; i < slots->body_input && (size_t)i < body->inputs.count && i < 2; i++)
        if (slots->leading_in[i])
            value_refine(infer, body->inputs.items[i],
                         (OpType){OPTYPE_TENSOR, (Dtype)slots->leading_in[i]});
}

static bool infer_body(Infer *infer, const Node *node, const OpSchema *schema,
                       const OpBodySlots *slots, Graph *body) {
    set_leading_inputs(infer, slots, body);
    OpType type;
    Dtype precision = DTYPE_UNDEFINED;
    if (slots->precision) {
        precision = dtype_from_attr(infer, node, schema, slots->precision);
        bool twice = input_type(node, 0, &type) && type.dtype == DTYPE_DOUBLE;
        if (!precision) precision = twice ? DTYPE_DOUBLE : DTYPE_FLOAT;
    }
    for (size_t i = (size_t)slots->body_input; i < body->inputs.count; i++) {
        size_t from = (size_t)slots->node_input + i - (size_t)slots->body_input;
        if (precision)
            value_refine(infer, body->inputs.items[i], (OpType){OPTYPE_TENSOR, precision});
        else if (slots->node_input >= 0 && input_type(node, from, &type) &&
                 op_type_wrap((OpWrap)slots->in_wrap, type, &type))
            value_refine(infer, body->inputs.items[i], type);
    }
    return infer_graph(infer, body);
}

static bool infer_bodies(Infer *infer, const Node *node, const OpSchema *schema) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        uint32_t count;
        Graph *const *graphs = attr_held_graphs(attr, &count);
        const OpBodySlots *slots =
            count && schema ? op_body_slots(schema, sym_text(attr->name)) : NULL;
        for (uint32_t i = 0; i < count; i++) {
            bool ok = slots ? infer_body(infer, node, schema, slots, graphs[i])
                            : infer_graph(infer, graphs[i]);
            if (!ok) return false;
        }
    }
    return true;
}

/* The type of node output `index` as the graph in attribute `name` gives it. */
static bool type_from_body(const Node *node, const OpSchema *schema, const char *name, size_t index,
                           OpType *type) {
    const OpBodySlots *slots = op_body_slots(schema, name);
    const Graph *body = attr_graph(node_attr(node, name));
    if (!slots || slots->node_output < 0 || !body) return false;
    size_t at = (size_t)slots->body_output + index - (size_t)slots->node_output;
    if (at >= body->outputs.count) return false;
    const Value *value = body->outputs.items[at]->use.value;
    return op_type_from(value->type, type) && op_type_wrap((OpWrap)slots->out_wrap, *type, type);
}

/* ---- outputs --------------------------------------------------------------------------------- */

typedef struct NodeView {
    const Node *node;
    const OpSchema *schema;
    OpType *bound;            /* by type variable */
    bool *is_bound, *is_open; /* open: an operand is there, but of no known type */
} NodeView;

/* "XGH>XH": see OP_FROM_GROUPS. */
static bool type_from_groups(const Node *node, const OpOutputRule *rule, size_t index,
                             OpType *type) {
    const char *split = strchr(rule->text, '>');
    size_t groups = (size_t)(split - rule->text);
    if (node->input_count < rule->input) return false;
    size_t members = (node->input_count - rule->input) / groups;
    if (!members || index / members >= strlen(split + 1)) return false;
    const char *letter = memchr(rule->text, split[1 + index / members], groups);
    return letter &&
           input_type(node, rule->input + (size_t)(letter - rule->text) * members + index % members,
                      type);
}

/* True where the rule applies; *known says whether it gave a type. */
static bool rule_applies(Infer *infer, const NodeView *view, const OpOutputRule *rule, size_t index,
                         OpType *type) {
    const Node *node = view->node;
    const Attr *attr = rule->attr ? attr_of(infer, node, rule->attr) : NULL;
    *type = (OpType){OPTYPE_TENSOR, (Dtype)rule->dtype};
    switch ((OpFrom)rule->from) {
    case OP_FROM_INPUT: return input_type(node, rule->input, type);
    case OP_FROM_DTYPE_ATTR:
        type->dtype = dtype_from_attr(infer, node, view->schema, rule->attr);
        return type->dtype != DTYPE_UNDEFINED;
    case OP_FROM_TENSOR_ATTR:
        type->dtype = dtype_from_tensor(attr);
        return type->dtype != DTYPE_UNDEFINED;
    case OP_FROM_TYPE_ATTR: return op_type_from(attr_type(attr), type);
    case OP_FROM_ATTR_PRESENCE: return attr_is_filled(attr);
    case OP_FROM_ATTR_TEXT: return attr_has_text(infer, node, view->schema, rule);
    case OP_FROM_INPUT_DTYPE: {
        OpType in;
        return input_type(node, rule->input, &in) && in.dtype == (Dtype)rule->other;
    }
    case OP_FROM_DEFAULT: return true;
    case OP_FROM_BODY:
        return type_from_body(node, view->schema, rule->attr, index, type) ||
               (strcmp(rule->attr, "then_branch") == 0 &&
                type_from_body(node, view->schema, "else_branch", index, type));
    case OP_FROM_SAME_PLACE: return input_type(node, index, type);
    case OP_FROM_GROUPS: return type_from_groups(node, rule, index, type);
    case OP_FROM_NOWHERE: return false;
    }
    return false;
}

static bool output_type(Infer *infer, const NodeView *view, size_t index, OpType *type) {
    const OpSchema *schema = view->schema;
    const OpParam *param = op_schema_output(schema, index);
    if (!param) return false;
    if (type_set_single(op_param_types(schema, param), &type->kind, &type->dtype)) return true;
    bool shared = param->var != OP_NO_VAR && (param->option != OP_VARIADIC || param->homogeneous);
    if (shared && view->is_bound[param->var]) {
        *type = view->bound[param->var];
        return true;
    }
    if (shared && view->is_open[param->var]) return false; /* as that operand is */
    size_t count;
    const OpOutputRule *rules = op_output_rules(schema, (size_t)(param - schema->outputs), &count);
    for (size_t i = 0; i < count; i++)
        if (rule_applies(infer, view, &rules[i], index, type))
            return op_type_wrap((OpWrap)rules[i].wrap, *type, type);
    return false;
}

static void bind_inputs(NodeView *view) {
    for (uint32_t i = 0; i < view->node->input_count; i++) {
        const OpParam *param = op_schema_input(view->schema, i);
        if (!param || param->var == OP_NO_VAR || view->is_bound[param->var] ||
            (param->option == OP_VARIADIC && !param->homogeneous))
            continue;
        view->is_bound[param->var] = input_type(view->node, i, &view->bound[param->var]);
        if (view->node->inputs[i].value && !view->is_bound[param->var])
            view->is_open[param->var] = true;
    }
}

/* Never part of infer_operator, which is on the stack once for every graph around this one. */
static __attribute__((noinline)) void infer_outputs(Infer *infer, Node *node,
                                                    const OpSchema *schema) {
    OpType bound[256];
    bool is_bound[256] = {false}, is_open[256] = {false};
    NodeView view = {node, schema, bound, is_bound, is_open};
    bind_inputs(&view);
    for (uint32_t i = 0; i < node->output_count; i++) {
        OpType type;
        if (node->outputs[i] && output_type(infer, &view, i, &type))
            value_refine(infer, node->outputs[i], type);
    }
}

static bool infer_operator(Infer *infer, Node *node, const OpSchema *schema) {
    if (!infer_bodies(infer, node, schema)) return false;
    if (schema) infer_outputs(infer, node, schema); /* else what is declared stays */
    return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool same_value(const Attr *a, const Attr *b) {
    int64_t i, k;
    float x, y;
    if (attr_int(a, &i)) return attr_int(b, &k) && i == k;
    if (attr_float(a, &x)) return attr_float(b, &y) && memcmp(&x, &y, sizeof x) == 0;
    return attr_same_text(a, b);
}

/* True where two calls give all attributes alike; lists and tensors are not looked into. */
static bool same_attributes(const Node *a, const Node *b) {
    size_t count = 0;
    for (const Attr *attr = a->attrs; attr; attr = attr->next, count++) {
        const Attr *other = attr_named(b->attrs, attr->name);
        if (!other || !same_value(attr, other)) return false;
    }
    for (const Attr *attr = b->attrs; attr; attr = attr->next) count--;
    return count == 0;
}

static const Type *input_at(const Node *node, size_t i) {
    const Value *value = i < node->input_count ? node->inputs[i].value : NULL;
    return value ? value->type : NULL;
}

static bool signature_fits(const Signature *signature, const Function *function, const Node *node,
                           bool by_attributes) {
    for (size_t i = 0; i < function->body->inputs.count; i++) {
        const Type *type = input_at(node, i);
        if (type != signature->inputs[i] && !type_same_dtypes(type, signature->inputs[i]))
            return false;
    }
    return !by_attributes || same_attributes(signature->call, node);
}

/* False of a call that is like no other: it gives a graph, say, which is not even compared with itself. */
static bool may_be_alike(const Node *node) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (!same_value(attr, attr)) return false;
    return true;
}

static const Signature *find_signature(const FunctionState *state, const Function *function,
                                       const Node *node) {
    const Signature *found = state->signatures;
    if (state->by_attributes && !may_be_alike(node)) return NULL;
    for (int i = 0; found && i < SIGNATURES_LOOKED_AT; i++, found = found->next)
        if (signature_fits(found, function, node, state->by_attributes)) return found;
    return NULL;
}

static void set_formals(Infer *infer, const Signature *signature, const Graph *body) {
    for (size_t i = 0; i < body->inputs.count; i++) {
        OpType type;
        bool known = signature->inputs[i] && op_type_from(signature->inputs[i], &type);
        value_set_type(body->inputs.items[i], known ? type_refine(infer->arena, NULL, type) : NULL);
    }
}

/* Infers the body for what this call gives; NULL with an error. */
static const Signature *infer_function_body(Infer *infer, const Function *function,
                                            const Node *node) {
    FunctionState *state = &infer->functions[function->index];
    Graph *body = function->body;
    Signature *signature = ARENA_NEW(infer->scratch, Signature);
    signature->call = node;
    signature->inputs = ARENA_ARRAY(infer->scratch, const Type *, body->inputs.count);
    signature->outputs = ARENA_ARRAY(infer->scratch, const Type *, body->outputs.count);
    for (size_t i = 0; i < body->inputs.count; i++) signature->inputs[i] = input_at(node, i);
    set_formals(infer, signature, body);
    CallFrame frame = {.outer = infer->frame, .call = node, .function = function};
    infer->frame = &frame;
    VEC_PUSH(infer->scratch, &infer->inferred, function->index);
    state->running = true;
    bool ok = infer_graph(infer, body);
    state->running = false;
    infer->frame = frame.outer;
    if (!ok) return NULL;
    for (size_t i = 0; i < body->outputs.count; i++)
        signature->outputs[i] = body->outputs.items[i]->use.value->type;
    signature->next = state->signatures;
    state->signatures = signature;
    return signature;
}

/* What the values of a body have for types, as a number; kinds and element types alone. */
static void add_types(Graph *graph, void *data) {
    uint64_t *hash = data;
    for (const Node *node = graph->first; node; node = node_after(node)) {
        for (uint32_t i = 0; i < node->output_count; i++) {
            OpType type = {0};
            if (node->outputs[i]) op_type_from(node->outputs[i]->type, &type);
            *hash = (*hash ^ ((uint64_t)type.kind << 8 | type.dtype)) * UINT64_C(0x100000001b3);
        }
        node_each_graph(node, add_types, hash);
    }
}

static uint64_t types_of(const Function *function) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a's */
    add_types(function->body, &hash);
    return hash;
}

static bool infer_call(Infer *infer, Node *node, const Function *function) {
    FunctionState *state = &infer->functions[function->index];
    if (state->running) return node_error(node, infer->err, ERR_MODEL, "function calls itself");
    const Signature *signature = find_signature(state, function, node);
    if (!signature && state->signatures) {
        uint64_t cost = function->body->node_count + 1u;
        if (infer->budget < cost) { /* a barrier, as an unknown operator is */
            state->mixed = true;
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i]) value_set_type(node->outputs[i], NULL);
            return true;
        }
        infer->budget -= cost;
    }
    if (!signature) { /* of other attributes, perhaps, which say nothing of types */
        const Signature *last = state->signatures;
        const bool alike = last && signature_fits(last, function, node, false);
        const uint64_t before = alike ? types_of(function) : 0;
        signature = infer_function_body(infer, function, node);
        if (!signature) return false;
        state->mixed = state->mixed || (last && (!alike || types_of(function) != before));
    }
    for (uint32_t i = 0; i < node->output_count && i < function->body->outputs.count; i++) {
        OpType type;
        if (node->outputs[i] && op_type_from(signature->outputs[i], &type))
            value_refine(infer, node->outputs[i], type);
    }
    return true;
}

static bool infer_node(Infer *infer, Node *node) {
    const InferHook *hook = infer->hook;
    if (hook && hook->before_node) hook->before_node(hook->data, node);
    Function *function = model_find_function(infer->model, node);
    bool ok = function ? infer_call(infer, node, function)
                       : infer_operator(infer, node, node_schema(node));
    return ok && (!hook || !hook->after_node || hook->after_node(hook->data, node, infer->err));
}

static void set_initializer_types(Infer *infer, Graph *graph) {
    for (size_t i = 0; i < graph->initializers.count; i++) {
        Value *value = graph->initializers.items[i];
        Dtype dtype = dtype_of_number(value->init->dtype);
        if (dtype && !value->input) value_refine(infer, value, (OpType){OPTYPE_TENSOR, dtype});
    }
    for (size_t i = 0; i < graph->sparse_initializers.count; i++) {
        Value *value = graph->sparse_initializers.items[i];
        const Tensor *values = value->sparse_init->values;
        Dtype dtype = values ? dtype_of_number(values->dtype) : DTYPE_UNDEFINED;
        if (dtype) value_refine(infer, value, (OpType){OPTYPE_TENSOR, dtype});
    }
}

/* Subgraphs and called functions end up here again, so the depth is what bounds the stack. */
static bool infer_graph(Infer *infer, Graph *graph) {
    if (infer->depth == DEPTH_MAX) {
        err_set(infer->err, ERR_MODEL, "graphs and function calls are nested more than %d deep",
                DEPTH_MAX);
        err_graph(infer->err, graph);
        return false;
    }
    infer->depth++;
    set_initializer_types(infer, graph);
    bool ok = true;
    for (Node *node = graph->first; ok && node; node = node_after(node))
        ok = infer_node(infer, node);
    infer->depth--;
    return ok;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static bool bad_input(Infer *infer, const char *item, const char *what) {
    err_set(infer->err, ERR_USAGE, "%s", what);
    err_operand(infer->err, "input dtype '%s'", item);
    return false;
}

static bool set_declared_inputs(Infer *infer, const PassStrings *items) {
    for (size_t i = 0; i < items->count; i++) {
        const char *item = items->items[i], *split = strrchr(item, '=');
        if (!split) return bad_input(infer, item, "expected NAME=DTYPE");
        Dtype dtype = dtype_from_name(split + 1, strlen(split + 1));
        if (!dtype) return bad_input(infer, item, "unknown dtype");
        Sym name = sym_find(&infer->model->syms, item, (size_t)(split - item));
        Value *found = NULL;
        for (size_t k = 0; k < infer->model->graph->inputs.count; k++)
            if (name && infer->model->graph->inputs.items[k]->name == name)
                found = infer->model->graph->inputs.items[k];
        if (!found) return bad_input(infer, item, "the model has no input with this name");
        OpType type = {OPTYPE_TENSOR, dtype};
        if (op_type_from(found->type, &type)) type.dtype = dtype;
        value_refine(infer, found, type);
        if (found->input->type != found->type) {
            found->input->type = found->type;
            model_touch(infer->model);
        }
    }
    return true;
}

static bool check_inputs_known(Infer *infer) {
    const Graph *graph = infer->model->graph;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.items[i];
        TypeKind kind = value_type(value)->kind;
        if (kind == TYPE_MAP || kind == TYPE_OPAQUE || type_dtype(value->type)) continue;
        err_set(infer->err, ERR_USAGE, "the model does not declare the type of this input");
        err_operand(infer->err, "input '%s'", sym_text(value->name));
        err_hint(infer->err, "use --input-dtype %s=float", sym_text(value->name));
        return false;
    }
    return true;
}

/* Values of a body whose call sites disagree get no type, so that nobody acts on one site's. */
static void forget_types(Graph *graph, void *data) {
    for (size_t i = 0; i < graph->inputs.count; i++) value_set_type(graph->inputs.items[i], NULL);
    for (Node *node = graph->first; node; node = node_after(node)) {
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) value_set_type(node->outputs[i], NULL);
        node_each_graph(node, forget_types, data);
    }
}

bool infer_dtypes(PassCtx *ctx, const PassStrings *inputs, const InferHook *hook, Err *err) {
    Model *model = ctx->model;
    Infer infer = {.model = model,
                   .arena = &model->arena,
                   .scratch = ctx->scratch,
                   .err = err,
                   .budget = REPEAT_BUDGET,
                   .hook = hook};
    infer.functions = ARENA_ARRAY(ctx->scratch, FunctionState, model->functions.count + 1);
    if ((inputs && !set_declared_inputs(&infer, inputs)) || !check_inputs_known(&infer) ||
        !infer_graph(&infer, model->graph))
        return false;
    for (size_t i = 0; i < model->functions.count; i++)
        if (infer.functions[i].mixed || !infer.functions[i].signatures)
            forget_types(model->functions.items[i]->body, NULL);
    for (size_t i = 0; i < model->training.count; i++) {
        const TrainingInfo *info = model->training.items[i];
        if (info->initialization && !infer_graph(&infer, info->initialization)) return false;
        if (info->algorithm && !infer_graph(&infer, info->algorithm)) return false;
    }
    return true;
}

struct InferCalls {
    Infer infer;
    Arena scratch; /* emptied after every call */
};

static void calls_end(void *data) {
    arena_free(&((InferCalls *)data)->scratch);
}

InferCalls *infer_calls_new(PassCtx *ctx) {
    InferCalls *calls = ARENA_NEW(ctx->scratch, InferCalls);
    arena_init(&calls->scratch, ctx->scratch->trap);
    arena_defer(ctx->scratch, calls_end, calls);
    calls->infer =
        (Infer){.model = ctx->model, .arena = &ctx->model->arena, .scratch = &calls->scratch};
    calls->infer.functions =
        ARENA_ARRAY(ctx->scratch, FunctionState, ctx->model->functions.count + 1);
    return calls;
}

bool infer_dtypes_call(InferCalls *calls, const CallFrame *outer, const Node *call, Err *err) {
    Infer *infer = &calls->infer;
    Function *function = model_find_function(infer->model, call);
    infer->err = err;
    infer->frame = outer;
    infer->budget = REPEAT_BUDGET;
    forget_types(function->body, NULL);
    bool ok = infer_function_body(infer, function, call);
    for (size_t i = 0; i < infer->inferred.count; i++)
        infer->functions[infer->inferred.items[i]] = (FunctionState){0};
    memset(&infer->inferred, 0, sizeof infer->inferred); /* it lies in the scratch */
    arena_reset(&calls->scratch);
    return ok;
}

void infer_forget_call(const Function *function) {
    forget_types(function->body, NULL);
}

/* What a given input type makes of the outputs must be what the model says they are. */
static bool check_outputs(const Graph *graph, Err *err) {
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const GraphOutput *output = graph->outputs.items[i];
        Dtype declared = type_dtype(output->decl->type),
              found = type_dtype(output->use.value->type);
        if (!declared || !found || declared == found) continue;
        err_set(err, ERR_USAGE, "with the given input types it is %s, but declared %s",
                dtype_name(found), dtype_name(declared));
        err_operand(err, "output '%s'", sym_text(output->use.value->name));
        return false;
    }
    return true;
}

bool infer_dtypes_given(PassCtx *ctx, const PassStrings *inputs, Err *err) {
    if (!infer_dtypes(ctx, inputs, NULL, err)) return false;
    return inputs->count == 0 || check_outputs(ctx->model->graph, err);
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const InferDtypesOptions *options = opts;
    return infer_dtypes_given(ctx, &options->inputs, err);
}

const PassInfo infer_dtypes_pass = {
    .name = "infer-dtypes",
    .summary = "infer the element type of every value",
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(InferDtypesOptions),
    .idempotent = true,
    .keeps_shapes = true,
    .run = run,
};
