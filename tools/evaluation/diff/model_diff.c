// SPDX-License-Identifier: Apache-2.0
/* Walks two models in pairs of graphs; see model_diff.h for what is matched with what. */
#include "model_diff.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"
#include "diff_text.h"

enum { WINDOW = 4096 };

typedef struct Diff {
    Arena *arena;
    SymTable syms; /* names of both models and paths, as one */
    DiffVisit visit;
    void *data;
    const char *graph;
    Err *err;
} Diff;

/* Parts of one graph by name, in order. */
typedef struct Entry {
    Sym key;
    const void *part;
    uint32_t copies; /* of its name, that have another key */
    bool met;
} Entry;

typedef struct Names {
    Entry *entries;
    size_t count;
    uint32_t *slots; /* 1 + index, 0: free; a power of two */
    size_t capacity;
} Names;

static void say(Diff *d, DemiDifference difference) {
    difference.size = sizeof difference;
    difference.graph = d->graph;
    if (!difference.op_type) difference.op_type = "";
    if (!difference.what) difference.what = "";
    if (!difference.a) difference.a = "";
    if (!difference.b) difference.b = "";
    d->visit(d->data, &difference);
}

/* ---- names ----------------------------------------------------------------------------------- */

static Names names_new(Diff *d, size_t most) {
    Names names = {.capacity = 16};
    while (names.capacity < most * 2) names.capacity *= 2;
    names.entries = ARENA_ARRAY(d->arena, Entry, most);
    names.slots = ARENA_ARRAY(d->arena, uint32_t, names.capacity);
    return names;
}

static uint32_t *names_slot(const Names *names, Sym key) {
    size_t i = sym_hash(key) & (names->capacity - 1);
    while (names->slots[i] && names->entries[names->slots[i] - 1].key != key)
        i = (i + 1) & (names->capacity - 1);
    return &names->slots[i];
}

static void names_add(Diff *d, Names *names, const char *name, const void *part) {
    Sym key = sym_intern_cstr(&d->syms, name);
    uint32_t *slot = names_slot(names, key);
    Entry *first = *slot ? &names->entries[*slot - 1] : NULL;
    while (*slot) { /* names need not be unique */
        char *next = arena_printf(d->arena, "%s#%u", name, ++first->copies + 1);
        key = sym_intern_cstr(&d->syms, next);
        slot = names_slot(names, key);
    }
    names->entries[names->count] = (Entry){.key = key, .part = part};
    *slot = (uint32_t)++names->count;
}

static Entry *names_find(const Names *names, Sym key) {
    uint32_t index = *names_slot(names, key);
    return index ? &names->entries[index - 1] : NULL;
}

typedef struct Part {
    DemiDiffKind kind;
    const char *op_type; /* or NULL */
    const char *text;    /* what it is; "" */
} Part;

typedef bool (*PartCompare)(Diff *d, const char *name, const void *a, const void *b);
typedef Part (*PartTell)(Diff *d, const void *part);

/* Calls compare for each pair and reports what one side lacks. */
static bool match(Diff *d, const Names *a, Names *b, PartTell tell, PartCompare compare) {
    for (size_t i = 0; i < a->count; i++) {
        const Entry *entry = &a->entries[i];
        Entry *other = names_find(b, entry->key);
        if (other) {
            other->met = true;
            if (!compare(d, entry->key->text, entry->part, other->part)) return false;
            continue;
        }
        Part part = tell(d, entry->part);
        say(d, (DemiDifference){.kind = part.kind,
                                .change = DEMI_DIFF_REMOVED,
                                .name = entry->key->text,
                                .op_type = part.op_type,
                                .a = part.text});
    }
    for (size_t i = 0; i < b->count; i++) {
        if (b->entries[i].met) continue;
        Part part = tell(d, b->entries[i].part);
        say(d, (DemiDifference){.kind = part.kind,
                                .change = DEMI_DIFF_ADDED,
                                .name = b->entries[i].key->text,
                                .op_type = part.op_type,
                                .b = part.text});
    }
    return true;
}

static void say_change(Diff *d, DemiDifference difference, const char *a, const char *b) {
    if (strcmp(a, b) == 0) return;
    difference.change = DEMI_DIFF_CHANGED;
    difference.a = a;
    difference.b = b;
    say(d, difference);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static bool is_readable_float(const Tensor *tensor) {
    return dtype_is_working(tensor->dtype);
}

/* How far the numbers of two tensors of one size are apart; "" where they are equal. */
static bool float_distance(Diff *d, const Tensor *a, const Tensor *b, const char **text) {
    float left[WINDOW], right[WINDOW];
    uint64_t count = tensor_count(a), different = 0;
    double most = 0;
    for (uint64_t first = 0; first < count; first += WINDOW) {
        uint64_t now = count - first < WINDOW ? count - first : WINDOW;
        if (!tensor_read_floats(a, first, now, left, d->err)) return false;
        if (!tensor_read_floats(b, first, now, right, d->err)) return false;
        for (uint64_t i = 0; i < now; i++) {
            if (memcmp(&left[i], &right[i], sizeof left[i]) == 0) continue;
            double distance = fabs((double)left[i] - (double)right[i]);
            different++;
            if (distance > most || isnan(distance)) most = distance;
        }
    }
    *text = different ? arena_printf(d->arena, "%llu of %llu values, by at most %.3g",
                                     (unsigned long long)different, (unsigned long long)count, most)
                      : "";
    return true;
}

static bool same_strings(const Tensor *a, const Tensor *b) {
    if (a->string_count != b->string_count) return false;
    for (uint64_t i = 0; i < a->string_count; i++)
        if (a->strings[i].size != b->strings[i].size ||
            (a->strings[i].size &&
             memcmp(a->strings[i].data, b->strings[i].data, a->strings[i].size) != 0))
            return false;
    return true;
}

/* *text: in what the data differs, "" where in nothing. Shapes are equal. */
static bool data_distance(Diff *d, const Tensor *a, const Tensor *b, const char **text) {
    *text = "";
    if (!tensor_check(a, d->err) || !tensor_check(b, d->err)) return false;
    if (a->storage == TENSOR_STRINGS || b->storage == TENSOR_STRINGS) {
        if (a->storage != b->storage || !same_strings(a, b)) *text = "strings";
        return true;
    }
    if (is_readable_float(a) && is_readable_float(b)) return float_distance(d, a, b, text);
    if (a->dtype != b->dtype) return true; /* said already */
    Err err = {0};
    if (tensor_compare_raw(a, b, tensor_raw_size(a), &err)) return true;
    if (err.code == ERR_ENV) {
        *d->err = err;
        return false;
    }
    *text = "data";
    return true;
}

static bool same_dims(const Tensor *a, const Tensor *b) {
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

/* `part` says whose tensors they are, and `what`, for a node's attribute, which. */
static bool diff_tensors(Diff *d, DemiDifference part, const Tensor *a, const Tensor *b) {
    if (!a || !b) {
        if (a != b) say_change(d, part, a ? "a tensor" : "", b ? "a tensor" : "");
        return true;
    }
    const char *x = diff_tensor_text(d->arena, a), *y = diff_tensor_text(d->arena, b);
    const char *distance = "";
    if (same_dims(a, b) && !data_distance(d, a, b, &distance)) {
        err_operand(d->err, "tensor '%s'", part.name);
        return false;
    }
    bool retyped = strcmp(x, y) != 0;
    if (!retyped && !distance[0]) return true;
    if (!part.what)
        part.what = distance;
    else if (distance[0])
        part.what = arena_printf(d->arena, "%s, %s", part.what, distance);
    part.change = DEMI_DIFF_CHANGED;
    part.a = retyped ? x : "";
    part.b = retyped ? y : "";
    say(d, part);
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool diff_graphs(Diff *d, const Graph *a, const Graph *b);

static const char *operand_name(const Value *value) {
    return value ? sym_text(value->name) : "";
}

static void diff_inputs(Diff *d, DemiDifference part, const Node *a, const Node *b) {
    uint32_t count = a->input_count > b->input_count ? a->input_count : b->input_count;
    for (uint32_t i = 0; i < count; i++) {
        part.what = arena_printf(d->arena, "input %u", i);
        say_change(d, part, i < a->input_count ? operand_name(a->inputs[i].value) : "",
                   i < b->input_count ? operand_name(b->inputs[i].value) : "");
    }
}

static void diff_outputs(Diff *d, DemiDifference part, const Node *a, const Node *b) {
    uint32_t count = a->output_count > b->output_count ? a->output_count : b->output_count;
    for (uint32_t i = 0; i < count; i++) {
        const Value *x = i < a->output_count ? a->outputs[i] : NULL;
        const Value *y = i < b->output_count ? b->outputs[i] : NULL;
        part.what = arena_printf(d->arena, "output %u", i);
        say_change(d, part, operand_name(x), operand_name(y));
        if (!x || !y || !x->type || !y->type) continue;
        DemiDifference type = {
            .kind = DEMI_DIFF_TYPE, .name = sym_text(x->name), .op_type = part.op_type};
        say_change(d, type, diff_type_text(d->arena, x->type), diff_type_text(d->arena, y->type));
    }
}

static bool diff_nested(Diff *d, const Attr *a, const Attr *b, const char *node) {
    const char *outer = d->graph;
    bool list = a->type == ATTR_GRAPHS;
    for (uint32_t i = 0; i < (list ? a->count : 1); i++) {
        const Graph *x = list ? a->v.graphs[i] : a->v.g, *y = list ? b->v.graphs[i] : b->v.g;
        if (!x || !y) continue;
        d->graph = arena_printf(d->arena, "%s%s%s/%s", outer, outer[0] ? "/" : "", node,
                                sym_text(a->name));
        if (!diff_graphs(d, x, y)) return false;
    }
    d->graph = outer;
    return true;
}

static bool diff_attr(Diff *d, DemiDifference part, const Attr *a, const Attr *b) {
    part.what = arena_printf(d->arena, "attribute %s", sym_text(a ? a->name : b->name));
    if (!a || !b || a->type != b->type || a->ref || b->ref || a->count != b->count) {
        say_change(d, part, a ? diff_attr_text(d->arena, a) : "absent",
                   b ? diff_attr_text(d->arena, b) : "absent");
        return true;
    }
    if (a->type == ATTR_TENSOR) return diff_tensors(d, part, a->v.t, b->v.t);
    if (a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS) return diff_nested(d, a, b, part.name);
    if (a->type == ATTR_SPARSE_TENSOR && a->v.sparse && b->v.sparse)
        return diff_tensors(d, part, a->v.sparse->values, b->v.sparse->values) &&
               diff_tensors(d, part, a->v.sparse->indices, b->v.sparse->indices);
    for (uint32_t i = 0; a->type == ATTR_TENSORS && i < a->count; i++)
        if (!diff_tensors(d, part, a->v.tensors[i], b->v.tensors[i])) return false;
    say_change(d, part, diff_attr_text(d->arena, a), diff_attr_text(d->arena, b));
    return true;
}

static bool diff_attrs(Diff *d, DemiDifference part, const Node *a, const Node *b) {
    for (const Attr *attr = a->attrs; attr; attr = attr->next)
        if (!diff_attr(d, part, attr, node_attr(b, sym_text(attr->name)))) return false;
    for (const Attr *attr = b->attrs; attr; attr = attr->next)
        if (!node_attr(a, sym_text(attr->name)) && !diff_attr(d, part, NULL, attr)) return false;
    return true;
}

static const char *op_text(Diff *d, const Node *node) {
    if (domain_is_default(node->domain)) return sym_text(node->op_type);
    return arena_printf(d->arena, "%s.%s", sym_text(node->domain), sym_text(node->op_type));
}

static Part tell_node(Diff *d, const void *part) {
    return (Part){DEMI_DIFF_NODE, op_text(d, part), ""};
}

static bool compare_nodes(Diff *d, const char *name, const void *x, const void *y) {
    const Node *a = x, *b = y;
    DemiDifference part = {.kind = DEMI_DIFF_NODE, .name = name, .op_type = op_text(d, a)};
    part.what = "operator";
    say_change(d, part, op_text(d, a), op_text(d, b));
    diff_inputs(d, part, a, b);
    diff_outputs(d, part, a, b);
    return diff_attrs(d, part, a, b);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static Part tell_input(Diff *d, const void *part) {
    const Value *value = part;
    return (Part){DEMI_DIFF_INPUT, NULL, diff_type_text(d->arena, value->input->type)};
}

static bool compare_inputs(Diff *d, const char *name, const void *a, const void *b) {
    Part x = tell_input(d, a), y = tell_input(d, b);
    say_change(d, (DemiDifference){.kind = DEMI_DIFF_INPUT, .name = name}, x.text, y.text);
    return true;
}

static Part tell_output(Diff *d, const void *part) {
    const GraphOutput *output = part;
    return (Part){DEMI_DIFF_OUTPUT, NULL, diff_type_text(d->arena, output->decl->type)};
}

static bool compare_outputs(Diff *d, const char *name, const void *a, const void *b) {
    Part x = tell_output(d, a), y = tell_output(d, b);
    say_change(d, (DemiDifference){.kind = DEMI_DIFF_OUTPUT, .name = name}, x.text, y.text);
    return true;
}

static Part tell_weight(Diff *d, const void *part) {
    const Value *value = part;
    const Tensor *tensor = value->init ? value->init : value->sparse_init->values;
    return (Part){DEMI_DIFF_WEIGHT, NULL, tensor ? diff_tensor_text(d->arena, tensor) : ""};
}

static bool compare_weights(Diff *d, const char *name, const void *x, const void *y) {
    const Value *a = x, *b = y;
    DemiDifference part = {.kind = DEMI_DIFF_WEIGHT, .name = name};
    if (a->init && b->init) return diff_tensors(d, part, a->init, b->init);
    if (!a->sparse_init || !b->sparse_init) {
        say_change(d, part, a->init ? "dense" : "sparse", b->init ? "dense" : "sparse");
        return true;
    }
    return diff_tensors(d, part, a->sparse_init->values, b->sparse_init->values) &&
           diff_tensors(d, part, a->sparse_init->indices, b->sparse_init->indices);
}

static Names input_names(Diff *d, const Graph *graph) {
    Names names = names_new(d, graph->inputs.count);
    for (size_t i = 0; i < graph->inputs.count; i++)
        names_add(d, &names, sym_text(graph->inputs.items[i]->name), graph->inputs.items[i]);
    return names;
}

static Names output_names(Diff *d, const Graph *graph) {
    Names names = names_new(d, graph->outputs.count);
    for (size_t i = 0; i < graph->outputs.count; i++)
        names_add(d, &names, sym_text(graph->outputs.items[i]->use.value->name),
                  graph->outputs.items[i]);
    return names;
}

static Names weight_names(Diff *d, const Graph *graph) {
    Names names = names_new(d, graph->initializers.count + graph->sparse_initializers.count);
    for (size_t i = 0; i < graph->initializers.count; i++)
        names_add(d, &names, sym_text(graph->initializers.items[i]->name),
                  graph->initializers.items[i]);
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        names_add(d, &names, sym_text(graph->sparse_initializers.items[i]->name),
                  graph->sparse_initializers.items[i]);
    return names;
}

static Names node_names(Diff *d, const Graph *graph) {
    Names names = names_new(d, graph->node_count);
    for (const Node *node = graph->first; node; node = node_after(node))
        names_add(d, &names, node_label(node), node);
    return names;
}

static bool diff_graphs(Diff *d, const Graph *a, const Graph *b) {
    Names x = input_names(d, a), y = input_names(d, b);
    if (!match(d, &x, &y, tell_input, compare_inputs)) return false;
    x = output_names(d, a);
    y = output_names(d, b);
    if (!match(d, &x, &y, tell_output, compare_outputs)) return false;
    x = weight_names(d, a);
    y = weight_names(d, b);
    if (!match(d, &x, &y, tell_weight, compare_weights)) return false;
    x = node_names(d, a);
    y = node_names(d, b);
    return match(d, &x, &y, tell_node, compare_nodes);
}

/* ---- models ---------------------------------------------------------------------------------- */

static const char *version_text(Diff *d, int64_t version) {
    return arena_printf(d->arena, "%lld", (long long)version);
}

static const char *domain_text(Sym domain) {
    return domain_is_default(domain) ? "ai.onnx" : sym_text(domain);
}

/* The version that `opsets` import of the domain of that name; 0 where they do not. */
static int64_t import_of(const OpsetImports *opsets, const char *domain) {
    for (size_t i = 0; i < opsets->count; i++)
        if (!strcmp(domain_text(opsets->items[i].domain), domain)) return opsets->items[i].version;
    return 0;
}

static void diff_opsets(Diff *d, const char *owner, const OpsetImports *a, const OpsetImports *b) {
    for (int side = 0; side < 2; side++) {
        const OpsetImports *these = side ? b : a;
        for (size_t i = 0; i < these->count; i++) {
            const char *domain = domain_text(these->items[i].domain);
            int64_t x = import_of(a, domain), y = import_of(b, domain);
            if (side && x) continue; /* said */
            const char *what = arena_printf(d->arena, "opset of %s", domain);
            say_change(d, (DemiDifference){.kind = DEMI_DIFF_MODEL, .name = owner, .what = what},
                       x ? version_text(d, x) : "", y ? version_text(d, y) : "");
        }
    }
}

static Part tell_function(Diff *d, const void *part) {
    const Function *function = part;
    return (Part){DEMI_DIFF_FUNCTION, NULL,
                  arena_printf(d->arena, "%u nodes", function->body->node_count)};
}

static bool compare_functions(Diff *d, const char *name, const void *x, const void *y) {
    const Function *a = x, *b = y;
    d->graph = name;
    diff_opsets(d, name, &a->opsets, &b->opsets);
    bool ok = diff_graphs(d, a->body, b->body);
    d->graph = "";
    return ok;
}

static Names function_names(Diff *d, const Model *model) {
    Names names = names_new(d, model->functions.count);
    for (size_t i = 0; i < model->functions.count; i++) {
        const Function *function = model->functions.items[i];
        bool overload = !sym_is_empty(function->overload);
        names_add(d, &names,
                  arena_printf(d->arena, "%s.%s%s%s", sym_text(function->domain),
                               sym_text(function->name), overload ? ":" : "",
                               sym_text(function->overload)),
                  function);
    }
    return names;
}

bool model_diff(const Model *a, const Model *b, Arena *scratch, DiffVisit visit, void *data,
                Err *err) {
    Diff diff = {.arena = scratch, .visit = visit, .data = data, .graph = "", .err = err};
    Diff *d = &diff;
    sym_table_init(&d->syms, scratch);
    say_change(d, (DemiDifference){.kind = DEMI_DIFF_MODEL, .name = "", .what = "IR version"},
               version_text(d, a->ir_version), version_text(d, b->ir_version));
    diff_opsets(d, "", &a->opsets, &b->opsets);
    if (!diff_graphs(d, a->graph, b->graph)) return false;
    Names x = function_names(d, a), y = function_names(d, b);
    return match(d, &x, &y, tell_function, compare_functions);
}
