// SPDX-License-Identifier: Apache-2.0
/* Types of values against operators, subgraphs and declarations; see strict_types.h. */
#include "strict_types.h"

#include <string.h>

#include "infer_dtypes.h"
#include "op_facts.h"
#include "op_types.h"
#include "verify.h"

/* ---- declarations ---------------------------------------------------------------------------- */

static const Type *said(const ValueDecl *decl) {
    const Type *type = decl ? decl->type : NULL;
    return type && type->kind != TYPE_NONE ? type : NULL;
}

/* Values that a graph defines, by their names' numbers. */
static void list_names(const Graph *graph, const Value **by_name) {
    for (size_t i = 0; i < graph->inputs.count; i++)
        by_name[graph->inputs.items[i]->name->number] = graph->inputs.items[i];
    for (size_t i = 0; i < graph->initializers.count; i++)
        by_name[graph->initializers.items[i]->name->number] = graph->initializers.items[i];
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) by_name[node->outputs[i]->name->number] = node->outputs[i];
}

typedef struct Declared {
    const Type **types;    /* [value_count] */
    const Value **by_name; /* by a name's number: what a graph defines, one graph at a time */
    const Value **around;  /* likewise: entries of graphs around for names that they do not define;
                              NULL: there are none */
    Arena *arena;
    size_t names;
} Declared;

/* Of several entries for a name the last one counts; the others are with values that nothing gives
 * (mentions.h), and so are those for names of graphs inside, where an entry of their own is not. */
static void declare_infos(Declared *d, const Graph *graph) {
    if (graph->infos.count || d->around) list_names(graph, d->by_name);
    for (size_t i = 0; i < graph->infos.count; i++) {
        const Value *entry = graph->infos.items[i];
        const Value *value = d->by_name[entry->name->number];
        if (!said(entry->info)) continue;
        if (value && value->graph == graph) {
            d->types[value->id] = said(entry->info);
            continue;
        }
        if (!d->around) d->around = ARENA_ARRAY(d->arena, const Value *, d->names);
        d->around[entry->name->number] = entry;
    }
    for (const Node *node = d->around ? graph->first : NULL; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++) {
            const Value *value = node->outputs[i];
            const Value *entry = value ? d->around[value->name->number] : NULL;
            if (entry && !d->types[value->id] && graph_is_within(graph, entry->graph))
                d->types[value->id] = said(entry->info);
        }
}

const Type **declared_types(const Model *model, bool infos, Arena *arena) {
    Declared d = {.arena = arena, .names = model->syms.count + 1u};
    const Type **declared = ARENA_ARRAY(arena, const Type *, model->value_count + 1u);
    d.types = declared;
    d.by_name = ARENA_ARRAY(arena, const Value *, d.names);
    GraphList graphs = model_graphs(model, arena);
    for (size_t g = 0; g < graphs.count; g++) {
        const Graph *graph = graphs.items[g];
        if (infos) declare_infos(&d, graph);
        for (size_t i = 0; i < graph->inputs.count; i++)
            if (said(graph->inputs.items[i]->input))
                declared[graph->inputs.items[i]->id] = said(graph->inputs.items[i]->input);
        for (size_t i = 0; i < graph->outputs.count; i++) {
            const Value *value = graph->outputs.items[i]->use.value;
            const Type *type = said(graph->outputs.items[i]->decl);
            if (type && value->graph == graph) declared[value->id] = type;
        }
    }
    return declared;
}

static const char *kind_word(const Type *type) {
    switch (type->kind) {
    case TYPE_TENSOR: return "tensor";
    case TYPE_SPARSE_TENSOR: return "sparse tensor";
    case TYPE_SEQUENCE: return "sequence";
    case TYPE_OPTIONAL: return "optional";
    case TYPE_MAP: return "map";
    case TYPE_OPAQUE: return "opaque type";
    case TYPE_NONE: break;
    }
    return "type";
}

static const char *dtype_word(const Type *type) {
    return (unsigned)type->dtype < DTYPE_COUNT ? dtype_name((Dtype)type->dtype) : "unknown";
}

static bool value_error(const Value *value, const char *what, Err *err) {
    if (value->producer)
        node_error(value->producer, err, ERR_MODEL, "%s", what);
    else
        err_set(err, ERR_MODEL, "%s", what);
    err_operand(err, "value '%s'", sym_text(value->name));
    if (!value->producer) err_graph(err, value->graph);
    return false;
}

/* Kinds and element types; what one of both does not say is not a contradiction. */
static bool compare_types(const Value *value, const Type *is, const Type *declared, Err *err) {
    for (; is && declared; is = is->elem, declared = declared->elem) {
        if (is->kind == TYPE_NONE || declared->kind == TYPE_NONE) return true;
        if (is->kind != declared->kind) {
            value_error(value, "is declared with a type other than its own", err);
            err_expected(err, "%s", kind_word(is));
            err_actual(err, "%s", kind_word(declared));
            return false;
        }
        if (is->dtype == declared->dtype || !is->dtype || !declared->dtype) continue;
        value_error(value, "is declared with a type other than its own", err);
        err_expected(err, "%s of %s", kind_word(is), dtype_word(is));
        err_actual(err, "%s of %s", kind_word(declared), dtype_word(declared));
        return false;
    }
    return true;
}

/* An initializer against what is declared of it: nothing infers its type where it is an input. */
static bool compare_initializer(const Value *value, const Type *declared, Err *err) {
    Type is = {.kind = TYPE_TENSOR, .dtype = value->init->dtype};
    return compare_types(value, &is, declared, err);
}

/* What an input that is given out is declared as, in both places. */
static bool compare_output(const GraphOutput *output, Err *err) {
    const Value *value = output->use.value;
    const Type *type = said(output->decl);
    return !type || compare_types(value, value->type, type, err);
}

static bool compare_graph(const Graph *graph, const Type *const *declared, Err *err) {
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.items[i];
        const Type *type = said(value->input);
        if (type && !compare_types(value, value->type, type, err)) return false;
    }
    for (size_t i = 0; i < graph->initializers.count; i++) {
        const Value *value = graph->initializers.items[i];
        if (declared[value->id] && !compare_initializer(value, declared[value->id], err))
            return false;
    }
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++) {
            const Value *value = node->outputs[i];
            const Type *type = value ? declared[value->id] : NULL;
            if (type && !compare_types(value, value->type, type, err)) return false;
        }
    for (size_t i = 0; i < graph->outputs.count; i++)
        if (!compare_output(graph->outputs.items[i], err)) return false;
    return true;
}

/* ---- subgraphs ------------------------------------------------------------------------------- */

typedef struct Body {
    const Node *node;
    const OpBodySlots *slots;
    const char *attr;
    const Graph *graph;
    Err *err;
} Body;

static bool body_error(const Body *body, const char *what, const Value *value) {
    node_error(body->node, body->err, ERR_MODEL, "%s", what);
    if (value)
        err_operand(body->err, "%s, '%s'", body->attr, sym_text(value->name));
    else
        err_operand(body->err, "%s", body->attr);
    return false;
}

static bool check_count(const Body *body, const char *what, size_t wanted, size_t count) {
    if (wanted == count) return true;
    body_error(body, what, NULL);
    err_expected(body->err, "%zu", wanted);
    err_actual(body->err, "%zu", count);
    return false;
}

/* Where initializers have to be inputs, a body has more of them than the node passes. */
static bool check_defaults(const Body *body, size_t given) {
    for (size_t i = given; i < body->graph->inputs.count; i++)
        if (!body->graph->inputs.items[i]->init)
            return body_error(body, "nothing provides a subgraph's input",
                              body->graph->inputs.items[i]);
    return true;
}

/* As many formals as the node passes. */
static bool check_counts(const Body *body) {
    const OpBodySlots *slots = body->slots;
    const Graph *graph = body->graph;
    size_t inputs = (size_t)slots->body_input, given = body->node->input_count;
    if (slots->precision) return true; /* of an attention's kernel: one score in, one out */
    if (slots->node_input >= 0) {
        size_t first = (size_t)slots->node_input;
        inputs += given > first ? given - first : 0;
    }
    bool old = graph->model->has_ir_version && graph->model->ir_version < 4;
    if (old && graph->inputs.count > inputs) {
        if (!check_defaults(body, inputs)) return false;
    } else if (!check_count(body, "a subgraph with a different number of inputs", inputs,
                            graph->inputs.count)) {
        return false;
    }
    size_t outputs = (size_t)slots->body_output + body->node->output_count;
    return check_count(body, "a subgraph with a different number of outputs", outputs,
                       graph->outputs.count);
}

/* Optionals take what they may hold. */
static bool same_types(const Body *body, const Value *inner, const Type *is, const Type *wanted) {
    OpType a, b;
    if (!op_type_from(is, &a) || !op_type_from(wanted, &b)) return true;
    op_type_wrap(OP_WRAP_CONTENT, a, &a);
    op_type_wrap(OP_WRAP_CONTENT, b, &b);
    if (a.kind == b.kind && a.dtype == b.dtype) return true;
    body_error(body, "a subgraph returns a different type", inner);
    err_expected(body->err, "%s of %s", kind_word(wanted), dtype_name(b.dtype));
    err_actual(body->err, "%s of %s", kind_word(is), dtype_name(a.dtype));
    return false;
}

/* Whatever a body's formals stand for is there, and what a state becomes has the type it had. */
static bool check_states(const Body *body) {
    const OpBodySlots *slots = body->slots;
    for (size_t i = (size_t)slots->node_input; slots->node_input >= 0; i++) {
        if (i >= body->node->input_count) break;
        if (!body->node->inputs[i].value)
            return body_error(body, "an operand that its subgraph reads is missing", NULL);
    }
    int64_t scans = node_attr_int(body->node, "num_scan_inputs", 0);
    size_t states = op_body_state_count(slots, body->node->input_count, scans);
    for (size_t i = 0; i < states; i++) {
        size_t at = (size_t)slots->body_output + i;
        const Value *state = body->node->inputs[(size_t)slots->node_input + i].value;
        if (at >= body->graph->outputs.count)
            return body_error(body, "a subgraph returns fewer values than it has states", NULL);
        if (!state) continue;
        const Value *inner = body->graph->outputs.items[at]->use.value;
        if (!same_types(body, inner, inner->type, state->type)) return false;
    }
    return true;
}

/* Both branches give the same types. */
static bool check_branch(const Body *body) {
    const Attr *other = node_attr(body->node, "then_branch");
    const Graph *beside = attr_graph(other);
    if (!beside) return true;
    for (size_t i = 0; i < body->graph->outputs.count && i < beside->outputs.count; i++) {
        const Value *inner = body->graph->outputs.items[i]->use.value;
        const Value *outer = beside->outputs.items[i]->use.value;
        if (!same_types(body, inner, inner->type, outer->type)) return false;
    }
    return true;
}

static bool check_leading(const Body *body) {
    const OpBodySlots *slots = body->slots;
    for (int i = 0; i < slots->body_output && (size_t)i < body->graph->outputs.count; i++) {
        const Value *inner = body->graph->outputs.items[i]->use.value;
        const Type *wanted = type_plain_tensor((Dtype)slots->leading_out);
        if (slots->leading_out && !same_types(body, inner, inner->type, wanted)) return false;
    }
    return true;
}

static bool check_bodies(const Node *node, Err *err) {
    const OpSchema *schema = node_schema(node);
    for (const Attr *attr = node->attrs; schema && attr; attr = attr->next) {
        if (!attr_graph(attr)) continue;
        Body body = {.node = node,
                     .slots = op_body_slots(schema, sym_text(attr->name)),
                     .attr = sym_text(attr->name),
                     .graph = attr_graph(attr),
                     .err = err};
        if (!body.slots) continue;
        bool branch = strcmp(body.attr, "else_branch") == 0;
        if (!check_counts(&body) || !check_leading(&body) || !check_states(&body) ||
            (branch && !check_branch(&body)))
            return false;
    }
    return true;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Types that a definition allows and the inference of its outputs, or its body, does not. */
static bool check_refusals(const Node *node, Err *err) {
    const OpSchema *schema = node_schema(node);
    for (uint32_t i = 0; schema && i < node->input_count; i++) {
        const OpParam *param = op_schema_input(schema, i);
        Dtype dtype = node->inputs[i].value ? type_dtype(node->inputs[i].value->type) : 0;
        if (!param || param->var == OP_NO_VAR || !dtype) continue;
        const char *why = op_refusal(schema, schema->vars[param->var].name, dtype);
        if (!why) continue;
        node_error(node, err, ERR_MODEL, "%s", why);
        err_operand(err, "operand '%s'", param->name);
        return false;
    }
    return true;
}

/* A value of the type variable; NULL where no operand of it is there. */
static const Value *value_of(const Node *node, const OpSchema *schema, const char *var) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const OpParam *param = op_schema_input(schema, i);
        if (node->inputs[i].value && param && param->var != OP_NO_VAR &&
            strcmp(schema->vars[param->var].name, var) == 0)
            return node->inputs[i].value;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const OpParam *param = op_schema_output(schema, i);
        if (node->outputs[i] && param && param->var != OP_NO_VAR &&
            strcmp(schema->vars[param->var].name, var) == 0)
            return node->outputs[i];
    }
    return NULL;
}

/* Two type variables that have to be of one element type, or of one width. */
static bool check_tie(const Node *node, const OpTie *tie, Err *err) {
    const Value *a = value_of(node, node_schema(node), tie->a);
    const Value *b = value_of(node, node_schema(node), tie->b);
    Dtype x = a ? type_dtype(a->type) : DTYPE_UNDEFINED;
    Dtype y = b ? type_dtype(b->type) : DTYPE_UNDEFINED;
    if (!x || !y || x == y || (tie->why == OP_TIE_WIDTH && dtype_bits(x) == dtype_bits(y)))
        return true;
    if (tie->floats_only && !(dtype_is_float(x) && dtype_is_float(y))) return true;
    node_error(node, err, ERR_MODEL, "operands that must agree differ");
    err_operand(err, "'%s' and '%s'", sym_text(a->name), sym_text(b->name));
    err_actual(err, "%s and %s", dtype_name(x), dtype_name(y));
    return false;
}

static bool check_ties(const Node *node, Err *err) {
    size_t count;
    const OpTie *ties = op_ties(node_schema(node), &count);
    for (size_t i = 0; i < count; i++) {
        int unless = ties[i].unless_input;
        bool off =
            unless >= 0 && (uint32_t)unless < node->input_count && node->inputs[unless].value;
        if (!off && ties[i].why != OP_TIE_BODY && !check_tie(node, &ties[i], err)) return false;
    }
    return true;
}

static bool has_type(const Value *value) {
    OpType type;
    return !value || op_type_from(value->type, &type);
}

/* True where the node's types depend on nothing unknown. */
static bool is_determined(const Node *node) {
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        if (attr->ref) return false;
        const Graph *body = attr_graph(attr);
        for (size_t i = 0; body && i < body->outputs.count; i++)
            if (!has_type(body->outputs.items[i]->use.value)) return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!has_type(node->inputs[i].value)) return false;
    return true;
}

typedef struct StrictTypes {
    Model *model;
    const Type **declared;
} StrictTypes;

/* True where an operator can't do without the value. */
static bool is_required(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next) {
        const OpSchema *schema = use->node ? node_schema(use->node) : NULL;
        if (schema && !model_find_function(value->graph->model, use->node) &&
            op_schema_input_is_required(schema, use->index))
            return true;
    }
    return false;
}

/* A call gives the function what it needs, and takes no more than it has. */
static bool check_call(const Node *node, const Function *function, Err *err) {
    const Graph *body = function->body;
    if (node->output_count > body->outputs.count) {
        node_error(node, err, ERR_MODEL, "the function has fewer outputs");
        err_expected(err, "at most %zu", body->outputs.count);
        err_actual(err, "%u", node->output_count);
        return false;
    }
    for (uint32_t i = 0; i < body->inputs.count; i++) {
        const Value *formal = body->inputs.items[i];
        if ((i < node->input_count && node->inputs[i].value) || !is_required(formal)) continue;
        node_error(node, err, ERR_MODEL, "an input that the function needs is missing");
        err_operand(err, "input '%s'", sym_text(formal->name));
        return false;
    }
    return true;
}

static bool is_operator(const Node *node) {
    return !model_find_function(node->graph->model, node) && node_schema(node);
}

/* What an operator gives is to be inferred, whatever is declared. */
static void forget_outputs(void *data, Node *node) {
    (void)data;
    if (!is_operator(node)) return;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) value_set_type(node->outputs[i], NULL);
}

/* An operator of which all is known gives types: else an attribute that should say one says none.
 * Declared shapes come back. */
static bool check_results(const StrictTypes *s, const Node *node, Err *err) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        Value *value = node->outputs[i];
        OpType type;
        if (!value) continue;
        const Type *declared = s->declared[value->id];
        if (op_type_from(value->type, &type)) {
            value_set_type(value, type_refine(&s->model->arena, declared, type));
            continue;
        }
        if (!value->type && is_determined(node)) {
            node_error(node, err, ERR_MODEL, "its output type is unknown");
            err_operand(err, "output '%s'", sym_text(value->name));
            return false;
        }
        if (!value->type) value_set_type(value, declared);
    }
    return true;
}

/* ConstantOfShape's fill is a list of one number. */
static bool check_fill(const Node *node, Err *err) {
    const Attr *attr = node_attr(node, "value");
    bool fills = domain_is_default(node->domain) && sym_equals(node->op_type, "ConstantOfShape");
    if (!fills || !attr_tensor(attr) || attr_tensor(attr)->rank == 1) return true;
    node_error(node, err, ERR_MODEL, "the value is not a list");
    err_operand(err, "attribute 'value'");
    err_expected(err, "rank 1");
    err_actual(err, "%u", attr_tensor(attr)->rank);
    return false;
}

static bool check_node(void *data, const Node *node, Err *err) {
    const Function *function = model_find_function(node->graph->model, node);
    if (function) return check_call(node, function, err);
    if (!is_operator(node)) return true;
    return check_results(data, node, err) && node_check_types(node, err) &&
           check_bodies(node, err) && check_refusals(node, err) && check_ties(node, err) &&
           check_fill(node, err);
}

static bool infer_strictly(PassCtx *ctx, const Type **declared, Err *err) {
    StrictTypes s = {ctx->model, declared};
    InferHook hook = {.before_node = forget_outputs, .after_node = check_node, .data = &s};
    return infer_dtypes(ctx, NULL, &hook, err);
}

bool strict_types_infer(PassCtx *ctx, Err *err) {
    return infer_strictly(
        ctx, ARENA_ARRAY(ctx->scratch, const Type *, ctx->model->value_count + 1u), err);
}

bool strict_types(PassCtx *ctx, bool infos, Err *err) {
    const Type **declared = declared_types(ctx->model, infos, ctx->scratch);
    if (!infer_strictly(ctx, declared, err)) return false;
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++)
        if (!compare_graph(graphs.items[i], declared, err)) return false;
    return true;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static const Type *leaf_of(const Type *type) {
    while (type && (type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL)) type = type->elem;
    bool tensor = type && (type->kind == TYPE_TENSOR || type->kind == TYPE_SPARSE_TENSOR);
    return tensor && type->has_shape ? type : NULL;
}

static bool compare_dims(const Value *value, const Type *is, const Type *declared, Err *err) {
    is = leaf_of(is);
    declared = leaf_of(declared);
    if (!is || !declared || is == declared) return true;
    if (is->rank != declared->rank) {
        value_error(value, "is declared with a rank other than its own", err);
        err_expected(err, "%u", is->rank);
        err_actual(err, "%u", declared->rank);
        return false;
    }
    for (uint32_t i = 0; i < is->rank; i++) {
        const Dim *a = &is->dims[i], *b = &declared->dims[i];
        if (a->kind != DIM_KNOWN || b->kind != DIM_KNOWN || a->size == b->size) continue;
        value_error(value, "is declared with a shape other than its own", err);
        err_expected(err, "%lld in dimension %u", (long long)a->size, i);
        err_actual(err, "%lld", (long long)b->size);
        return false;
    }
    return true;
}

static bool compare_tensor_dims(const Value *value, const Type *declared, Err *err) {
    Type is = {.kind = TYPE_TENSOR, .has_shape = true, .rank = value->init->rank};
    Dim dims[16] = {{0}};
    if (is.rank > sizeof dims / sizeof *dims) return true;
    for (uint32_t i = 0; i < is.rank; i++)
        dims[i] = (Dim){.kind = DIM_KNOWN, .size = value->init->dims[i]};
    is.dims = dims;
    return compare_dims(value, &is, declared, err);
}

bool strict_shapes(const Model *model, const Type *const *declared, Arena *scratch, Err *err) {
    GraphList graphs = model_graphs(model, scratch);
    for (size_t g = 0; g < graphs.count; g++) {
        const Graph *graph = graphs.items[g];
        for (size_t i = 0; i < graph->initializers.count; i++) {
            const Value *value = graph->initializers.items[i];
            if (!compare_tensor_dims(value, declared[value->id], err)) return false;
        }
        for (size_t i = 0; i < graph->inputs.count; i++) {
            const Value *value = graph->inputs.items[i];
            if (!compare_dims(value, value->type, declared[value->id], err)) return false;
        }
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++) {
                const Value *value = node->outputs[i];
                if (value && !compare_dims(value, value->type, declared[value->id], err))
                    return false;
            }
    }
    return true;
}
