// SPDX-License-Identifier: Apache-2.0
/* Walks a model and its reference side by side; see model_against.h. Each value of the model is
 * told which value of the reference it stands for when its definition is met, so that operands can
 * be compared; `of` holds that by value id. */
#include "model_against.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "constants.h"
#include "diff_text.h"
#include "op_facts.h"
#include "op_types.h"

enum { LOOK_AHEAD = 64 }; /* nodes that may be missing or added in a row before the walk gives up */

typedef struct Against {
    Arena *arena;
    AgainstVisit visit;
    void *data;
    const Value **of;    /* [value_count of the model]: what a value stands for in the reference */
    const Value **equal; /* the same, of constants: the last one it was compared with */
    Err *err;
} Against;

/* ---- saying it ------------------------------------------------------------------------------- */

static void say(Against *a, const Graph *graph, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(Against *a, const Graph *graph, const char *format, ...) {
    char text[600], line[900];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    Err err = {0};
    err_set(&err, ERR_MODEL, "path");
    if (graph) err_graph(&err, graph);
    const char *where = err.graph[0] ? " in " : "";
    snprintf(line, sizeof line, "%s%s%s", text, where, err.graph);
    a->visit(a->data, line);
}

/* "node 'n' (Conv)": of which `what` is another. */
static void say_node(Against *a, const Node *node, const char *what, const char *now,
                     const char *was) {
    say(a, node->graph, "node '%s' (%s), %s: %s, in the reference %s", node_label(node),
        sym_text(node->op_type), what, now[0] ? now : "none", was[0] ? was : "none");
}

static bool same_text(Sym x, Sym y) {
    return strcmp(sym_text(x), sym_text(y)) == 0;
}

static bool same_bytes(Bytes x, Bytes y) {
    return x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Types that a conversion computes in. */
static bool is_computed(Dtype dtype) {
    return dtype == DTYPE_FLOAT || dtype_is_reduced(dtype);
}

static bool is_castable(Dtype dtype) {
    return is_computed(dtype) || dtype == DTYPE_DOUBLE;
}

/* What a conversion may make of what was of the other type. */
static bool is_converted(Dtype now, Dtype was) {
    return now != was && is_computed(now) && is_castable(was);
}

static bool same_precision_apart(Against *a, const Type *now, const Type *was) {
    if (!now || !was) return now == was;
    if (is_converted(type_dtype(now), type_dtype(was)))
        was = type_with_dtype(a->arena, was, type_dtype(now));
    return strcmp(diff_type_text(a->arena, now), diff_type_text(a->arena, was)) == 0;
}

/* A cast that only changes precision, or a constant: nothing of its own. */
static bool is_transparent(const Node *node) {
    if (node_is_cast(node))
        return is_castable(type_dtype(node->inputs[0].value->type)) &&
               is_castable(type_dtype(node->outputs[0]->type));
    return node->output_count == 1 && node->outputs[0] && node->input_count == 0 &&
           constant_tensor(node->outputs[0], &node->graph->model->arena);
}

static const Value *resolve(const Value *value) {
    while (value && value->producer && node_is_cast(value->producer) &&
           is_transparent(value->producer))
        value = value->producer->inputs[0].value;
    return value;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool same_strings(const Tensor *x, const Tensor *y) {
    bool same = x->storage == y->storage && x->string_count == y->string_count;
    for (uint64_t i = 0; same && i < x->string_count; i++)
        same = same_bytes(x->strings[i], y->strings[i]);
    return same;
}

/* *same: equal, or `now` is `was` rounded. False where they can't be read. */
static bool compare_tensors(Against *a, const Tensor *now, const Tensor *was, bool *same) {
    *same = false;
    if (!tensor_check(now, a->err) || !tensor_check(was, a->err)) return false;
    if (now->rank != was->rank ||
        (now->rank && memcmp(now->dims, was->dims, now->rank * sizeof *now->dims) != 0))
        return true;
    if (now->storage == TENSOR_STRINGS || was->storage == TENSOR_STRINGS) {
        *same = same_strings(now, was);
        return true;
    }
    if (is_converted((Dtype)now->dtype, (Dtype)was->dtype))
        was = was->dtype == DTYPE_DOUBLE ? tensor_new_cast_clamped(a->arena, was, (Dtype)now->dtype)
                                         : tensor_new_cast(a->arena, was, (Dtype)now->dtype);
    if (now->dtype != was->dtype) return true;
    Err err = {0};
    *same = tensor_compare_raw(now, was, tensor_raw_size(now), &err);
    if (*same || err.code != ERR_ENV) return true;
    *a->err = err;
    return false;
}

/* Says so where two constants differ; each pair is read once. */
static bool compare_constants(Against *a, const Value *now, const Value *was) {
    if (a->equal[now->id] == was) return true;
    a->equal[now->id] = was;
    const Tensor *x = now->init ? now->init : constant_tensor(now, &now->graph->model->arena);
    const Tensor *y = was->init ? was->init : constant_tensor(was, &was->graph->model->arena);
    bool same = x == y;
    if (x && y && !compare_tensors(a, x, y, &same)) {
        err_operand(a->err, "tensor '%s'", sym_text(now->name));
        return false;
    }
    if (same) return true;
    say(a, now->graph,
        "weight '%s' (%s) is neither equal to the reference's '%s' (%s) nor rounded from it",
        sym_text(now->name), x ? diff_tensor_text(a->arena, x) : "none", sym_text(was->name),
        y ? diff_tensor_text(a->arena, y) : "none");
    return true;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool is_own_key(const KeyValue *entry) {
    return strncmp(sym_text(entry->key), "demi.", 5) == 0;
}

static const KeyValue *next_entry(const KeyValue *entry) {
    while (entry && is_own_key(entry)) entry = entry->next;
    return entry;
}

static bool same_metadata(const KeyValue *now, const KeyValue *was) {
    for (now = next_entry(now), was = next_entry(was); now && was;
         now = next_entry(now->next), was = next_entry(was->next))
        if (!same_text(now->key, was->key) || !same_text(now->value, was->value)) return false;
    return !now && !was;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool compare_graphs(Against *a, const Graph *now, const Graph *was);

static bool compare_operand(Against *a, const Node *node, uint32_t i, const Value *was) {
    const Value *now = i < node->input_count ? resolve(node->inputs[i].value) : NULL;
    was = resolve(was);
    if (!now && !was) return true;
    if (now && was && value_is_constant(now) && value_is_constant(was) &&
        (now->init || now->producer))
        return compare_constants(a, now, was);
    if (now && was && a->of[now->id] == was) return true;
    char what[32];
    snprintf(what, sizeof what, "input %u", i);
    say_node(a, node, what, now ? sym_text(now->name) : "", was ? sym_text(was->name) : "");
    return true;
}

static bool same_dtype_attr(Against *a, const OpSchema *schema, const Attr *now, const Attr *was) {
    if (!schema || op_attr_role(schema, sym_text(now->name)) != OP_ATTR_OUTPUT) return false;
    if (now->type == ATTR_INT) return is_converted((Dtype)now->v.i, (Dtype)was->v.i);
    if (now->type == ATTR_STRING) /* Cast's, before opset 6 */
        return was->v.s.size == 5 && memcmp(was->v.s.data, "FLOAT", 5) == 0 && now->v.s.size >= 7 &&
               memcmp(now->v.s.data + now->v.s.size - 7, "FLOAT16", 7) == 0;
    return now->type == ATTR_TYPE && same_precision_apart(a, now->v.tp, was->v.tp);
}

static bool compare_bodies(Against *a, const Attr *now, const Attr *was) {
    bool list = now->type == ATTR_GRAPHS;
    for (uint32_t i = 0; i < (list ? now->count : 1); i++) {
        const Graph *x = list ? now->v.graphs[i] : now->v.g;
        const Graph *y = list ? was->v.graphs[i] : was->v.g;
        if (x && y && !compare_graphs(a, x, y)) return false;
    }
    return true;
}

static bool compare_attr(Against *a, const Node *node, const Attr *now, const Attr *was) {
    char what[200];
    snprintf(what, sizeof what, "attribute %s", sym_text(now->name));
    bool alike =
        now->type == was->type && now->count == was->count && same_text(now->ref, was->ref);
    if (alike && (now->type == ATTR_GRAPH || now->type == ATTR_GRAPHS))
        return compare_bodies(a, now, was);
    if (alike && now->type == ATTR_TENSOR && now->v.t && was->v.t) {
        bool same;
        if (!compare_tensors(a, now->v.t, was->v.t, &same)) return false;
        if (!same)
            say_node(a, node, what, diff_tensor_text(a->arena, now->v.t), "a different tensor");
        return true;
    }
    const char *x = diff_attr_text(a->arena, now), *y = diff_attr_text(a->arena, was);
    if (alike && (strcmp(x, y) == 0 || same_dtype_attr(a, node_schema(node), now, was)))
        return true;
    say_node(a, node, what, x, y);
    return true;
}

/* An attribute that a conversion adds: an output's type, or the precision that Attention had. */
static bool may_be_added(const Node *node, const Attr *attr) {
    const OpSchema *schema = node_schema(node);
    if (!schema) return false;
    if (sym_equals(attr->name, "softmax_precision")) return attr->v.i == DTYPE_FLOAT;
    if (op_attr_role(schema, sym_text(attr->name)) != OP_ATTR_OUTPUT) return false;
    Dtype dtype = DTYPE_UNDEFINED;
    if (attr->type == ATTR_INT) dtype = (Dtype)attr->v.i;
    if (attr->type == ATTR_TENSOR && attr->v.t) dtype = (Dtype)attr->v.t->dtype;
    return is_castable(dtype);
}

static bool compare_attrs(Against *a, const Node *now, const Node *was) {
    for (const Attr *attr = was->attrs; attr; attr = attr->next) {
        const Attr *mine = node_attr(now, sym_text(attr->name));
        if (mine && !compare_attr(a, now, mine, attr)) return false;
        if (!mine)
            say(a, now->graph, "node '%s' (%s) lacks attribute %s", node_label(now),
                sym_text(now->op_type), sym_text(attr->name));
    }
    for (const Attr *attr = now->attrs; attr; attr = attr->next)
        if (!node_attr(was, sym_text(attr->name)) && !may_be_added(now, attr))
            say(a, now->graph, "node '%s' (%s) has attribute %s, which the reference lacks",
                node_label(now), sym_text(now->op_type), sym_text(attr->name));
    return true;
}

static void compare_outputs(Against *a, const Node *now, const Node *was) {
    uint32_t count = now->output_count > was->output_count ? now->output_count : was->output_count;
    for (uint32_t i = 0; i < count; i++) {
        const Value *x = i < now->output_count ? now->outputs[i] : NULL;
        const Value *y = i < was->output_count ? was->outputs[i] : NULL;
        char what[32];
        snprintf(what, sizeof what, "output %u", i);
        if (x && y) a->of[x->id] = y;
        if (!x != !y)
            say_node(a, now, what, x ? "present" : "", y ? "present" : "");
        else if (x && type_dtype(x->type) != type_dtype(y->type) &&
                 !is_converted(type_dtype(x->type), type_dtype(y->type)))
            say_node(a, now, what, diff_type_text(a->arena, x->type),
                     diff_type_text(a->arena, y->type));
    }
}

static bool compare_nodes(Against *a, const Node *now, const Node *was) {
    uint32_t count = now->input_count > was->input_count ? now->input_count : was->input_count;
    for (uint32_t i = 0; i < count; i++)
        if (!compare_operand(a, now, i, i < was->input_count ? was->inputs[i].value : NULL))
            return false;
    if (!compare_attrs(a, now, was)) return false;
    compare_outputs(a, now, was);
    if (!same_metadata(now->metadata, was->metadata))
        say(a, now->graph, "node '%s' (%s) has different metadata", node_label(now),
            sym_text(now->op_type));
    if (!same_text(node_extra(now)->doc, node_extra(was)->doc))
        say(a, now->graph, "node '%s' (%s) has a different doc string", node_label(now),
            sym_text(now->op_type));
    if (!same_bytes(node_extra(now)->rest, node_extra(was)->rest))
        say(a, now->graph, "node '%s' (%s) has different unknown fields", node_label(now),
            sym_text(now->op_type));
    return true;
}

/* ---- the order of nodes ---------------------------------------------------------------------- */

static const Node *next_own(const Node *node) {
    while (node && is_transparent(node)) node = node->next;
    return node;
}

static bool is_same_node(const Node *x, const Node *y) {
    return x && y && same_text(x->op_type, y->op_type) && same_text(x->name, y->name) &&
           same_text(node_extra(x)->overload, node_extra(y)->overload) &&
           (domain_is_default(x->domain) ? domain_is_default(y->domain)
                                         : same_text(x->domain, y->domain));
}

/* How many nodes behind `from` is one like `wanted`; LOOK_AHEAD where none is near. */
static int distance_to(const Node *from, const Node *wanted) {
    int steps = 0;
    while (from && steps < LOOK_AHEAD && !is_same_node(from, wanted)) {
        from = next_own(from->next);
        steps++;
    }
    return from ? steps : LOOK_AHEAD;
}

/* A cast that demi fused out of one of the reference's, such as bool to float, and its own: stands
 * for that one's result. True where there is one. */
static bool take_fused_cast(Against *a, const Node *cast) {
    if (!node_is_own_cast(cast)) return false;
    const Value *from = a->of[resolve(cast->inputs[0].value)->id];
    for (const Use *use = from ? from->uses : NULL; use; use = use->next) {
        if (!node_is_cast(use->node) || !is_castable(type_dtype(use->node->outputs[0]->type)))
            continue;
        a->of[cast->outputs[0]->id] = use->node->outputs[0];
        return true;
    }
    return false;
}

/* A cast of the reference that only fused ones stand for. */
static bool is_fused_away(const Node *now, const Node *was) {
    return node_is_cast(was) && is_castable(type_dtype(was->outputs[0]->type)) &&
           distance_to(now, was) == LOOK_AHEAD;
}

static void say_lone(Against *a, const Node *node, const char *what) {
    say(a, node->graph, "node '%s' (%s) %s", node_label(node), sym_text(node->op_type), what);
}

static bool compare_order(Against *a, const Graph *now, const Graph *was) {
    const Node *x = next_own(now->first), *y = next_own(was->first);
    while (x || y) {
        if (is_same_node(x, y)) {
            if (!compare_nodes(a, x, y)) return false;
            x = next_own(x->next);
            y = next_own(y->next);
            continue;
        }
        if (x && take_fused_cast(a, x)) {
            x = next_own(x->next);
            continue;
        }
        if (y && is_fused_away(x, y)) {
            y = next_own(y->next);
            continue;
        }
        int missing = x && y ? distance_to(y, x) : LOOK_AHEAD;
        int added = x && y ? distance_to(x, y) : LOOK_AHEAD;
        if (y && (!x || missing <= added)) {
            say_lone(a, y, "of the reference is missing");
            y = next_own(y->next);
        }
        if (x && (!y || missing >= added)) {
            say_lone(a, x, "is not in the reference");
            x = next_own(x->next);
        }
    }
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static int by_name(const void *x, const void *y) {
    const Value *const *a = x, *const *b = y;
    return strcmp(sym_text((*a)->name), sym_text((*b)->name));
}

static const Value **sorted_weights(Against *a, const Graph *graph, size_t *count) {
    *count = graph->initializers.count + graph->sparse_initializers.count;
    const Value **values = ARENA_ARRAY(a->arena, const Value *, *count);
    for (size_t i = 0; i < graph->initializers.count; i++) values[i] = graph->initializers.items[i];
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        values[graph->initializers.count + i] = graph->sparse_initializers.items[i];
    if (*count) qsort(values, *count, sizeof *values, by_name);
    return values;
}

static bool compare_weight(Against *a, const Value *now, const Value *was) {
    a->of[now->id] = was;
    if (now->init && was->init) return compare_constants(a, now, was);
    const SparseTensor *x = now->sparse_init, *y = was->sparse_init;
    bool same = x && y && x->values && y->values && x->indices && y->indices;
    if (same && !compare_tensors(a, x->values, y->values, &same)) return false;
    if (same && !compare_tensors(a, x->indices, y->indices, &same)) return false;
    if (!same) say(a, now->graph, "weight '%s' is a different sparse tensor", sym_text(now->name));
    return true;
}

/* Weights of one name. One that only the model has is a copy in another precision, whose readers
 * are compared, or read by nobody the reference has. */
static bool compare_weights(Against *a, const Graph *now, const Graph *was) {
    size_t count, others;
    const Value **x = sorted_weights(a, now, &count), **y = sorted_weights(a, was, &others);
    for (size_t i = 0, k = 0; k < others; k++) {
        int order = 1;
        while (i < count && (order = by_name(&x[i], &y[k])) < 0) i++;
        if (i < count && order == 0) {
            if (!compare_weight(a, x[i], y[k])) return false;
        } else if (!value_is_named_output(y[k])) { /* else its cast may have the name */
            say(a, now, "weight '%s' of the reference is missing", sym_text(y[k]->name));
        }
    }
    return true;
}

static const Type *declared(const ValueDecl *decl) {
    return decl ? decl->type : NULL;
}

static void compare_declared(Against *a, const Graph *graph, const char *what, const Value *now,
                             const Value *was) {
    if (!same_text(now->name, was->name))
        say(a, graph, "%s '%s' is called '%s' in the reference", what, sym_text(now->name),
            sym_text(was->name));
}

static void compare_type(Against *a, const Graph *graph, const char *what, const Value *value,
                         const Type *const types[2]) {
    if (graph->owner || same_precision_apart(a, types[0], types[1])) return;
    say(a, graph, "%s '%s' is %s, in the reference %s", what, sym_text(value->name),
        diff_type_text(a->arena, types[0]), diff_type_text(a->arena, types[1]));
}

/* What the model has left of the reference's inputs: those with defaults may be constants now. */
static const Value **inputs_left(Against *a, const Graph *now, const Graph *was, size_t *count) {
    const Value **left = ARENA_ARRAY(a->arena, const Value *, was->inputs.count + 1);
    *count = 0;
    for (size_t i = 0; i < was->inputs.count; i++) {
        const Value *y = was->inputs.items[i];
        const Value *x = *count < now->inputs.count ? now->inputs.items[*count] : NULL;
        if (!y->init || (x && same_text(x->name, y->name))) left[(*count)++] = y;
    }
    return left;
}

static bool compare_inputs(Against *a, const Graph *now, const Graph *was) {
    size_t count;
    const Value **left = inputs_left(a, now, was, &count);
    if (now->inputs.count != count) {
        say(a, now, "%zu inputs, in the reference %zu", now->inputs.count, was->inputs.count);
        return true;
    }
    for (size_t i = 0; i < now->inputs.count; i++) {
        const Value *x = now->inputs.items[i], *y = left[i];
        a->of[x->id] = y;
        compare_declared(a, now, "input", x, y);
        compare_type(a, now, "input", x, (const Type *[]){declared(x->input), declared(y->input)});
    }
    return true;
}

/* Names of a subgraph's outputs are its own affair. */
static bool compare_graph_outputs(Against *a, const Graph *now, const Graph *was) {
    if (now->outputs.count != was->outputs.count) {
        say(a, now, "%zu outputs, in the reference %zu", now->outputs.count, was->outputs.count);
        return true;
    }
    for (size_t i = 0; i < now->outputs.count; i++) {
        const GraphOutput *o = now->outputs.items[i], *p = was->outputs.items[i];
        const Value *x = o->use.value, *y = p->use.value;
        if (!now->owner) compare_declared(a, now, "output", x, y);
        compare_type(a, now, "output", x, (const Type *[]){o->decl->type, p->decl->type});
        const Value *u = resolve(x), *v = resolve(y);
        bool constants =
            u && v && value_is_constant(u) && value_is_constant(v) && (u->init || u->producer);
        if (constants ? !compare_constants(a, u, v) : false) return false;
        if (!constants && a->of[u->id] != v)
            say(a, now, "output '%s' is computed from '%s', in the reference from '%s'",
                sym_text(x->name), sym_text(u->name), sym_text(v->name));
    }
    return true;
}

static bool compare_graphs(Against *a, const Graph *now, const Graph *was) {
    if (!same_text(now->name, was->name)) say(a, now, "the graph has a different name");
    if (!same_text(now->doc, was->doc)) say(a, now, "the graph has a different doc string");
    if (!same_metadata(now->metadata, was->metadata))
        say(a, now, "the graph has different metadata");
    return compare_inputs(a, now, was) && compare_weights(a, now, was) &&
           compare_order(a, now, was) && compare_graph_outputs(a, now, was);
}

/* ---- models ---------------------------------------------------------------------------------- */

static const char *domain_text(Sym domain) {
    return domain_is_default(domain) ? "ai.onnx" : sym_text(domain);
}

/* A cast needs an import of the default domain, which may be new; a conversion may raise versions.
 */
static void compare_imports(Against *a, const OpsetImports *now, const OpsetImports *was) {
    for (size_t i = 0; i < now->count; i++) {
        const OpsetImport *import = &now->items[i];
        int64_t other = 0;
        for (size_t k = 0; k < was->count && !other; k++)
            if (!strcmp(domain_text(was->items[k].domain), domain_text(import->domain)))
                other = was->items[k].version;
        bool raised = other && other <= import->version;
        if (raised || (!other && domain_is_default(import->domain))) continue;
        say(a, NULL, "opset of %s: %lld, in the reference %lld", domain_text(import->domain),
            (long long)import->version, (long long)other);
    }
    for (size_t k = 0; k < was->count; k++) {
        bool found = false;
        for (size_t i = 0; i < now->count; i++)
            found |= !strcmp(domain_text(now->items[i].domain), domain_text(was->items[k].domain));
        if (!found) say(a, NULL, "%s is not imported", domain_text(was->items[k].domain));
    }
}

static void compare_header(Against *a, const Model *now, const Model *was) {
    const struct {
        const char *name;
        Sym now, was;
    } fields[] = {
        {"producer name", now->producer_name, was->producer_name},
        {"producer version", now->producer_version, was->producer_version},
        {"domain", now->domain, was->domain},
        {"doc string", now->doc, was->doc},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!same_text(fields[i].now, fields[i].was))
            say(a, NULL, "the model has a different %s", fields[i].name);
    if (now->ir_version < was->ir_version)
        say(a, NULL, "IR version %lld, in the reference %lld", (long long)now->ir_version,
            (long long)was->ir_version);
    if (now->model_version != was->model_version) say(a, NULL, "a different model version");
    if (!same_metadata(now->metadata, was->metadata))
        say(a, NULL, "the model has different metadata");
    if (!same_bytes(now->rest, was->rest)) say(a, NULL, "the model has different unknown fields");
}

static bool compare_functions(Against *a, const Model *now, const Model *was) {
    size_t count =
        now->functions.count < was->functions.count ? now->functions.count : was->functions.count;
    if (now->functions.count != was->functions.count)
        say(a, NULL, "%zu functions, in the reference %zu", now->functions.count,
            was->functions.count);
    for (size_t i = 0; i < count; i++) {
        const Function *x = now->functions.items[i], *y = was->functions.items[i];
        if (!same_text(x->name, y->name) || !same_text(x->domain, y->domain) ||
            !same_text(x->overload, y->overload)) {
            say(a, NULL, "function '%s' is '%s' in the reference", sym_text(x->name),
                sym_text(y->name));
            continue;
        }
        compare_imports(a, &x->opsets, &y->opsets);
        if (!same_metadata(x->metadata, y->metadata) || !same_text(x->doc, y->doc))
            say(a, NULL, "function '%s' has different metadata", sym_text(x->name));
        if (!compare_graphs(a, x->body, y->body)) return false;
    }
    return true;
}

static bool compare_training(Against *a, const Model *now, const Model *was) {
    if (now->training.count != was->training.count) {
        say(a, NULL, "%zu training infos, in the reference %zu", now->training.count,
            was->training.count);
        return true;
    }
    for (size_t i = 0; i < now->training.count; i++) {
        const TrainingInfo *x = now->training.items[i], *y = was->training.items[i];
        if (!x->initialization != !y->initialization || !x->algorithm != !y->algorithm)
            say(a, NULL, "a different training_info");
        else if ((x->initialization && !compare_graphs(a, x->initialization, y->initialization)) ||
                 (x->algorithm && !compare_graphs(a, x->algorithm, y->algorithm)))
            return false;
    }
    return true;
}

bool model_against(const Model *model, const Model *reference, Arena *scratch, AgainstVisit visit,
                   void *data, Err *err) {
    Against a = {.arena = scratch, .visit = visit, .data = data, .err = err};
    a.of = ARENA_ARRAY(scratch, const Value *, model->value_count + 1u);
    a.equal = ARENA_ARRAY(scratch, const Value *, model->value_count + 1u);
    compare_header(&a, model, reference);
    compare_imports(&a, &model->opsets, &reference->opsets);
    return compare_graphs(&a, model->graph, reference->graph) &&
           compare_functions(&a, model, reference) && compare_training(&a, model, reference);
}
