// SPDX-License-Identifier: Apache-2.0
/* Exact comparison of two models; see compare.h for what counts. Both are walked side by side in
 * file order; a value is equal to another where their names are and their graphs lie equally deep,
 * which suffices because names are unique in a graph and the graphs are walked in pairs. */
#include "compare.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 14 };

typedef struct Compare {
    const CompareOptions *options;
    bool parts;         /* of the main graph, b has a part only */
    const Graph *graph; /* where the walk is, for messages; NULL: outside of any */
    const Node *node;
    Err *err;
} Compare;

static bool differ(Compare *c, const char *what) {
    if (c->node)
        node_error(c->node, c->err, ERR_MODEL, "%s differs", what);
    else
        err_set(c->err, ERR_MODEL, "%s differs", what);
    if (c->graph) err_graph(c->err, c->graph);
    return false;
}

#define SAME(condition, what)                                                                      \
    do {                                                                                           \
        if (!(condition)) return differ(c, what);                                                  \
    } while (0)

/* ---- small parts ----------------------------------------------------------------------------- */

static bool same_bytes(Bytes a, Bytes b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool sym_same(Sym a, Sym b) {
    if (a == b) return true;
    return a && b && a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

static bool same_sym(Compare *c, Sym a, Sym b, const char *what) {
    if (sym_same(a, b)) return true;
    differ(c, what);
    err_expected(c->err, a ? "'%.80s'" : "none%s", sym_text(a));
    err_actual(c->err, b ? "'%.80s'" : "none%s", sym_text(b));
    return false;
}

static bool same_count(Compare *c, uint64_t a, uint64_t b, const char *what) {
    if (a == b) return true;
    differ(c, what);
    err_expected(c->err, "%llu", (unsigned long long)a);
    err_actual(c->err, "%llu", (unsigned long long)b);
    return false;
}

static bool same_entry(const KeyValue *a, const KeyValue *b) {
    return sym_same(a->key, b->key) && sym_same(a->value, b->value) && same_bytes(a->rest, b->rest);
}

static bool same_entries(Compare *c, const KeyValue *a, const KeyValue *b, const char *what) {
    for (; a && b; a = a->next, b = b->next) SAME(same_entry(a, b), what);
    SAME(!a && !b, what);
    return true;
}

static bool same_opsets(Compare *c, const OpsetImports *a, const OpsetImports *b) {
    if (!same_count(c, a->count, b->count, "number of opset imports")) return false;
    for (size_t i = 0; i < a->count; i++) {
        const OpsetImport *x = &a->items[i], *y = &b->items[i];
        SAME(sym_same(x->domain, y->domain) && x->has_version == y->has_version &&
                 x->version == y->version && same_bytes(x->rest, y->rest),
             "opset import");
    }
    return true;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool same_dim(const Dim *a, const Dim *b) {
    static const DimExtra none;
    const DimExtra *x = a->extra ? a->extra : &none, *y = b->extra ? b->extra : &none;
    return a->kind == b->kind && (a->kind != DIM_KNOWN || a->size == b->size) &&
           (a->kind != DIM_SYMBOL || sym_same(a->symbol, b->symbol)) &&
           sym_same(x->denotation, y->denotation) && same_bytes(x->rest, y->rest);
}

static bool type_same(const Type *a, const Type *b) {
    static const TypeExtra none;
    for (; a && b; a = a->elem, b = b->elem) {
        const TypeExtra *x = a->extra ? a->extra : &none, *y = b->extra ? b->extra : &none;
        if (a->kind != b->kind || a->has_dtype != b->has_dtype ||
            (a->has_dtype && a->dtype != b->dtype) || a->has_shape != b->has_shape ||
            a->rank != b->rank || !sym_same(x->denotation, y->denotation) ||
            !same_bytes(x->rest, y->rest) || !same_bytes(x->inner_rest, y->inner_rest) ||
            !same_bytes(x->shape_rest, y->shape_rest))
            return false;
        for (uint32_t i = 0; i < a->rank; i++)
            if (!same_dim(&a->dims[i], &b->dims[i])) return false;
    }
    return !a && !b;
}

static bool same_decl(Compare *c, Sym name, const ValueDecl *a, const ValueDecl *b) {
    if (a == b) return true;
    bool same = a && b && type_same(a->type, b->type) && sym_same(a->doc, b->doc) &&
                same_bytes(a->rest, b->rest);
    if (same) return same_entries(c, a->metadata, b->metadata, "metadata of a declaration");
    differ(c, "declaration of a value");
    err_operand(c->err, "value '%s'", sym_text(name));
    return false;
}

/* ---- tensors --------------------------------------------------------------------------------- */

bool tensor_compare_raw(const Tensor *a, const Tensor *b, uint64_t size, Err *err) {
    unsigned char left[PIECE], right[PIECE];
    for (uint64_t done = 0; done < size;) {
        size_t now = size - done < PIECE ? (size_t)(size - done) : PIECE;
        if (!tensor_read_raw(a, done, left, now, err)) return false;
        if (!tensor_read_raw(b, done, right, now, err)) return false;
        if (memcmp(left, right, now) != 0)
            return err_set(err, ERR_MODEL, "data of a tensor differs");
        done += now;
    }
    return true;
}

static bool is_raw(const Tensor *tensor) {
    return tensor->cast_of || tensor->storage == TENSOR_RAW || tensor->storage == TENSOR_EXTERNAL;
}

static bool is_external(const Tensor *tensor) {
    return !tensor->cast_of && tensor->storage == TENSOR_EXTERNAL;
}

/* The size of the raw form; for data that is raw already, right or wrong, that of the data. */
static bool raw_size(const Tensor *tensor, uint64_t *size, Err *err) {
    *size = tensor->size;
    if (is_raw(tensor) && !tensor->cast_of) return true;
    if (!tensor_check(tensor, err)) return false;
    *size = tensor_raw_size(tensor);
    return true;
}

static bool same_raw(Compare *c, const Tensor *a, const Tensor *b) {
    uint64_t size, other;
    if (!raw_size(a, &size, c->err) || !raw_size(b, &other, c->err)) return false;
    if (!same_count(c, size, other, "size of a tensor's data")) return false;
    if (c->options && c->options->same_data)
        return c->options->same_data(c->options->data, a, b, c->err);
    return tensor_compare_raw(a, b, size, c->err);
}

static bool same_data(Compare *c, const Tensor *a, const Tensor *b) {
    bool moved = is_external(a) || is_external(b); /* also out of a typed field */
    if ((is_raw(a) && is_raw(b)) || moved) return same_raw(c, a, b);
    SAME(a->storage == b->storage && !is_raw(a) && !is_raw(b), "field of a tensor's data");
    if (a->storage == TENSOR_STRINGS) {
        if (!same_count(c, a->string_count, b->string_count, "number of strings")) return false;
        for (uint64_t i = 0; i < a->string_count; i++)
            SAME(same_bytes(a->strings[i], b->strings[i]), "string of a tensor");
        return true;
    }
    if (a->storage == TENSOR_NO_DATA) return true;
    if (!same_count(c, a->size, b->size, "size of a tensor's data")) return false;
    SAME(a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0, "data of a tensor");
    return true;
}

/* Kept bytes of a tensor whose data moved to or from an external file may say, in one place, where
 * the data is: an explicit default of data_location. */
static bool same_but_for_a_gap(Bytes a, Bytes b) {
    if (a.size < b.size) return same_but_for_a_gap(b, a);
    size_t head = 0, tail = 0;
    while (head < b.size && a.data[head] == b.data[head]) head++;
    while (tail < b.size && a.data[a.size - 1 - tail] == b.data[b.size - 1 - tail]) tail++;
    return head + tail >= b.size;
}

static bool same_tensor_fields(Compare *c, const Tensor *a, const Tensor *b) {
    SAME(a->has_dtype == b->has_dtype && a->dtype == b->dtype, "element type of a tensor");
    SAME(a->rank == b->rank, "rank of a tensor");
    for (uint32_t i = 0; i < a->rank; i++) SAME(a->dims[i] == b->dims[i], "shape of a tensor");
    const TensorExtra *x = tensor_extra(a), *y = tensor_extra(b);
    if (!same_sym(c, x->doc, y->doc, "doc string of a tensor")) return false;
    bool moved = is_external(a) != is_external(b);
    SAME(moved ? same_but_for_a_gap(x->rest, y->rest) : same_bytes(x->rest, y->rest),
         "unknown fields of a tensor");
    return same_entries(c, x->metadata, y->metadata, "metadata of a tensor") && same_data(c, a, b);
}

/* owner: the value that names the tensor, NULL where its own name counts. */
static bool same_tensor(Compare *c, const Value *owner, const Tensor *a, const Tensor *b) {
    if (!a && !b) return true;
    SAME(a && b, "presence of a tensor");
    bool same =
        (owner || same_sym(c, a->name, b->name, "name of a tensor")) && same_tensor_fields(c, a, b);
    if (same) return true;
    err_operand(c->err, "tensor '%s'", sym_text(owner ? owner->name : a->name));
    if (c->graph) err_graph(c->err, c->graph);
    return false;
}

static bool same_sparse(Compare *c, const Value *owner, const SparseTensor *a,
                        const SparseTensor *b) {
    if (!a && !b) return true;
    SAME(a && b && a->rank == b->rank, "sparse tensor");
    for (uint32_t i = 0; i < a->rank; i++)
        SAME(a->dims[i] == b->dims[i], "shape of a sparse tensor");
    SAME(same_bytes(a->rest, b->rest), "unknown fields of a sparse tensor");
    return same_tensor(c, owner, a->values, b->values) &&
           same_tensor(c, NULL, a->indices, b->indices);
}

/* ---- values and names ------------------------------------------------------------------------ */

static unsigned graph_depth(const Graph *graph) {
    unsigned depth = 0;
    for (; graph; graph = graph->parent) depth++;
    return depth;
}

static bool is_defined(const Value *value) {
    return value->producer || value->input || value->init || value->sparse_init;
}

static bool same_value(Compare *c, const Value *a, const Value *b, const char *what) {
    if (!a && !b) return true;
    if (!same_sym(c, a ? a->name : NULL, b ? b->name : NULL, what)) return false;
    if (c->parts && !is_defined(b)) { /* perhaps in another part */
        SAME(!is_defined(a) || graph_depth(a->graph) == 1, what);
        return true;
    }
    SAME(is_defined(a) == is_defined(b) && a->output_index == b->output_index &&
             (a->producer != NULL) == (b->producer != NULL),
         what);
    SAME(!is_defined(a) || graph_depth(a->graph) == graph_depth(b->graph), what);
    return true;
}

/* The name as it will be written. */
static Sym ref_name(const NameRef *ref) {
    return ref->value && ref->name ? ref->value->name : ref->name;
}

static bool same_ref(Compare *c, const NameRef *a, const NameRef *b, const char *what) {
    return same_sym(c, ref_name(a), ref_name(b), what);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool same_graph(Compare *c, const Graph *a, const Graph *b);

static bool same_nested(Compare *c, const Graph *a, const Graph *b) {
    if (!a && !b) return true;
    SAME(a && b, "presence of a subgraph");
    const Graph *graph = c->graph;
    const Node *node = c->node;
    c->node = NULL;
    bool same = same_graph(c, a, b);
    c->graph = graph;
    c->node = node;
    return same;
}

static bool same_list(Compare *c, const Attr *a, const Attr *b) {
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->type == ATTR_STRINGS)
            SAME(same_bytes(a->v.strings[i], b->v.strings[i]), "attribute");
        if (a->type == ATTR_TYPES) SAME(type_same(a->v.types[i], b->v.types[i]), "attribute");
        if (a->type == ATTR_TENSORS && !same_tensor(c, NULL, a->v.tensors[i], b->v.tensors[i]))
            return false;
        if (a->type == ATTR_GRAPHS && !same_nested(c, a->v.graphs[i], b->v.graphs[i])) return false;
        if (a->type == ATTR_SPARSE_TENSORS &&
            !same_sparse(c, NULL, a->v.sparses[i], b->v.sparses[i]))
            return false;
    }
    return true;
}

static bool same_attr_value(Compare *c, const Attr *a, const Attr *b) {
    SAME(a->type == b->type && a->count == b->count, "attribute");
    switch (a->type) {
    case ATTR_UNDEFINED: return true;
    case ATTR_FLOAT:
        SAME(a->has_value == b->has_value && memcmp(&a->v.f, &b->v.f, sizeof a->v.f) == 0,
             "attribute");
        return true;
    case ATTR_INT: SAME(a->has_value == b->has_value && a->v.i == b->v.i, "attribute"); return true;
    case ATTR_STRING:
        SAME(a->has_value == b->has_value && same_bytes(a->v.s, b->v.s), "attribute");
        return true;
    case ATTR_FLOATS:
        SAME(a->count == 0 || memcmp(a->v.floats, b->v.floats, a->count * sizeof *a->v.floats) == 0,
             "attribute");
        return true;
    case ATTR_INTS:
        SAME(a->count == 0 || memcmp(a->v.ints, b->v.ints, a->count * sizeof *a->v.ints) == 0,
             "attribute");
        return true;
    case ATTR_TYPE: SAME(type_same(a->v.tp, b->v.tp), "attribute"); return true;
    case ATTR_TENSOR: return same_tensor(c, NULL, a->v.t, b->v.t);
    case ATTR_GRAPH: return same_nested(c, a->v.g, b->v.g);
    case ATTR_SPARSE_TENSOR: return same_sparse(c, NULL, a->v.sparse, b->v.sparse);
    case ATTR_STRINGS:
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: return same_list(c, a, b);
    }
    return true;
}

static bool same_attr(Compare *c, const Attr *a, const Attr *b) {
    if (!same_sym(c, a->name, b->name, "attribute name") ||
        !same_sym(c, a->ref, b->ref, "attribute reference") ||
        !same_sym(c, a->doc, b->doc, "doc string of an attribute"))
        return false;
    SAME(a->has_type == b->has_type && same_bytes(a->rest, b->rest), "attribute");
    const Attr *x = a, *y = b;
    for (; x && y; x = x->also, y = y->also)
        if (!same_attr_value(c, x, y)) return false;
    SAME(!x && !y, "attribute");
    return true;
}

static bool same_attrs(Compare *c, const Attr *a, const Attr *b) {
    for (; a && b; a = a->next, b = b->next) {
        if (same_attr(c, a, b)) continue;
        err_operand(c->err, "attribute '%s'", sym_text(a->name));
        return false;
    }
    SAME(!a && !b, "number of attributes");
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool same_devices(Compare *c, const NodeExtra *a, const NodeExtra *b) {
    if (!same_count(c, a->device_count, b->device_count, "number of device configurations"))
        return false;
    for (uint32_t i = 0; i < a->device_count; i++) {
        const DeviceConfig *x = &a->devices[i], *y = &b->devices[i];
        SAME(x->spec_count == y->spec_count && same_bytes(x->rest, y->rest),
             "device configuration");
        for (uint32_t j = 0; j < x->spec_count; j++) {
            if (!same_ref(c, &x->specs[j].tensor, &y->specs[j].tensor, "sharded tensor"))
                return false;
            SAME(same_bytes(x->specs[j].rest, y->specs[j].rest), "sharding");
        }
    }
    return true;
}

static bool same_node(Compare *c, const Node *a, const Node *b) {
    const NodeExtra *x = node_extra(a), *y = node_extra(b);
    if (!same_sym(c, a->name, b->name, "node name") ||
        !same_sym(c, a->op_type, b->op_type, "operator") ||
        !same_sym(c, a->domain, b->domain, "domain") ||
        !same_sym(c, x->overload, y->overload, "overload") ||
        !same_sym(c, x->doc, y->doc, "doc string") ||
        !same_count(c, a->input_count, b->input_count, "number of inputs") ||
        !same_count(c, a->output_count, b->output_count, "number of outputs"))
        return false;
    for (uint32_t i = 0; i < a->input_count; i++)
        if (!same_value(c, a->inputs[i].value, b->inputs[i].value, "input")) return false;
    for (uint32_t i = 0; i < a->output_count; i++)
        if (!same_value(c, a->outputs[i], b->outputs[i], "output")) return false;
    SAME(same_bytes(x->rest, y->rest), "unknown fields");
    return same_attrs(c, a->attrs, b->attrs) &&
           same_entries(c, a->metadata, b->metadata, "metadata") && same_devices(c, x, y);
}

/* What b has of a list: the items behind the first `done` of a's `all`. */
typedef struct Part {
    GraphCursor *from;
    bool last; /* nothing may be left of a behind it */
} Part;

static bool part_fits(Compare *c, const Part *part, const uint64_t counts[3], const char *what) {
    uint64_t all = counts[0], reached = counts[1] + counts[2];
    if (!part->last && reached <= all) return true;
    return same_count(c, all, reached, what);
}
#define PART_FITS(all, done, more, what)                                                           \
    part_fits(c, part, (const uint64_t[]){(all), (done), (more)}, what)

static bool same_nodes(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    GraphCursor *from = part->from;
    const Node *x = from->node ? from->node->next : a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next) {
        c->node = x;
        if (!same_node(c, x, y)) return false;
        from->node = x;
    }
    c->node = NULL;
    if (!PART_FITS(a->node_count, from->nodes, b->node_count, "number of nodes")) return false;
    from->nodes += b->node_count;
    return true;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool same_inputs(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    size_t from = part->from->inputs;
    if (!PART_FITS(a->inputs.count, from, b->inputs.count, "number of graph inputs")) return false;
    for (size_t i = 0; i < b->inputs.count; i++) {
        const Value *x = a->inputs.items[from + i], *y = b->inputs.items[i];
        if (!same_sym(c, x->name, y->name, "graph input") ||
            !same_decl(c, x->name, x->input, y->input))
            return false;
    }
    part->from->inputs += b->inputs.count;
    return true;
}

static bool same_outputs(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    size_t from = part->from->outputs;
    if (!PART_FITS(a->outputs.count, from, b->outputs.count, "number of graph outputs"))
        return false;
    for (size_t i = 0; i < b->outputs.count; i++) {
        const GraphOutput *x = a->outputs.items[from + i], *y = b->outputs.items[i];
        if (!same_value(c, x->use.value, y->use.value, "graph output") ||
            !same_decl(c, x->use.value->name, x->decl, y->decl))
            return false;
    }
    part->from->outputs += b->outputs.count;
    return true;
}

static bool same_initializers(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    size_t from = part->from->initializers;
    if (!PART_FITS(a->initializers.count, from, b->initializers.count, "number of initializers"))
        return false;
    for (size_t i = 0; i < b->initializers.count; i++) {
        const Value *x = a->initializers.items[from + i], *y = b->initializers.items[i];
        if (!same_sym(c, x->name, y->name, "initializer") || !same_tensor(c, x, x->init, y->init))
            return false;
    }
    part->from->initializers += b->initializers.count;
    return true;
}

static bool same_sparse_initializers(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    size_t from = part->from->sparse_initializers;
    if (!PART_FITS(a->sparse_initializers.count, from, b->sparse_initializers.count,
                   "number of sparse initializers"))
        return false;
    for (size_t i = 0; i < b->sparse_initializers.count; i++) {
        const Value *x = a->sparse_initializers.items[from + i];
        const Value *y = b->sparse_initializers.items[i];
        if (!same_sym(c, x->name, y->name, "sparse initializer") ||
            !same_sparse(c, x, x->sparse_init, y->sparse_init))
            return false;
    }
    part->from->sparse_initializers += b->sparse_initializers.count;
    return true;
}

static bool same_infos(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    size_t from = part->from->infos;
    if (!PART_FITS(a->infos.count, from, b->infos.count, "number of value_info entries"))
        return false;
    for (size_t i = 0; i < b->infos.count; i++) {
        const Value *x = a->infos.items[from + i], *y = b->infos.items[i];
        if (!same_sym(c, x->name, y->name, "value_info") ||
            !same_decl(c, x->name, x->info, y->info))
            return false;
    }
    part->from->infos += b->infos.count;
    return true;
}

static bool same_annotation(Compare *c, const QuantAnnotation *a, const QuantAnnotation *b) {
    if (!same_ref(c, &a->tensor, &b->tensor, "quantization annotation")) return false;
    SAME(a->param_count == b->param_count && same_bytes(a->rest, b->rest),
         "quantization annotation");
    for (uint32_t i = 0; i < a->param_count; i++) {
        SAME(sym_same(a->param_keys[i], b->param_keys[i]) &&
                 same_bytes(a->param_rests[i], b->param_rests[i]),
             "quantization annotation");
        if (!same_ref(c, &a->params[i], &b->params[i], "quantization parameter")) return false;
    }
    return true;
}

static bool same_annotations(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    size_t from = part->from->annotations;
    if (!PART_FITS(a->annotations.count, from, b->annotations.count,
                   "number of quantization annotations"))
        return false;
    for (size_t i = 0; i < b->annotations.count; i++)
        if (!same_annotation(c, &a->annotations.items[from + i], &b->annotations.items[i]))
            return false;
    part->from->annotations += b->annotations.count;
    return true;
}

static bool same_graph_metadata(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    const KeyValue *last = part->from->metadata;
    const KeyValue *x = last ? last->next : a->metadata, *y = b->metadata;
    for (; x && y; x = x->next, y = y->next) {
        SAME(same_entry(x, y), "metadata of a graph");
        part->from->metadata = x;
    }
    SAME(!y && !(x && part->last), "metadata of a graph");
    return true;
}

static bool same_part(Compare *c, const Graph *a, const Graph *b, const Part *part) {
    c->graph = a;
    return same_inputs(c, a, b, part) && same_outputs(c, a, b, part) &&
           same_initializers(c, a, b, part) && same_sparse_initializers(c, a, b, part) &&
           same_nodes(c, a, b, part) && same_infos(c, a, b, part) &&
           same_annotations(c, a, b, part) && same_graph_metadata(c, a, b, part);
}

/* b has what follows *from in a, and no more. */
static bool same_graph_end(Compare *c, const Graph *a, const Graph *b, GraphCursor *from) {
    c->graph = a;
    if (!same_sym(c, a->name, b->name, "graph name") ||
        !same_sym(c, a->doc, b->doc, "doc string of a graph"))
        return false;
    const Part part = {.from = from, .last = true};
    if (!same_part(c, a, b, &part)) return false;
    SAME(same_bytes(a->rest, b->rest), "unknown fields of a graph");
    return true;
}

static bool same_graph(Compare *c, const Graph *a, const Graph *b) {
    GraphCursor start = {0};
    return same_graph_end(c, a, b, &start);
}

bool graph_compare_part(const Graph *a, const Graph *b, const CompareOptions *options, Err *err) {
    Compare compare = {.options = options, .parts = true, .err = err};
    const Part part = {.from = options->compared};
    return same_part(&compare, a, b, &part);
}

static bool same_function(Compare *c, const Function *a, const Function *b) {
    c->graph = a->body;
    if (!same_sym(c, a->name, b->name, "function name") ||
        !same_sym(c, a->domain, b->domain, "function domain") ||
        !same_sym(c, a->overload, b->overload, "function overload") ||
        !same_sym(c, a->doc, b->doc, "doc string of a function") ||
        !same_count(c, a->attributes.count, b->attributes.count, "number of function attributes"))
        return false;
    for (size_t i = 0; i < a->attributes.count; i++)
        if (!same_sym(c, a->attributes.items[i], b->attributes.items[i], "function attribute"))
            return false;
    SAME(same_bytes(a->rest, b->rest), "unknown fields of a function");
    return same_attrs(c, a->attribute_protos, b->attribute_protos) &&
           same_opsets(c, &a->opsets, &b->opsets) &&
           same_entries(c, a->metadata, b->metadata, "metadata of a function") &&
           same_graph(c, a->body, b->body);
}

/* ---- models ---------------------------------------------------------------------------------- */

static bool same_binding(Compare *c, const TrainingBinding *a, const TrainingBinding *b) {
    SAME(same_bytes(a->rest, b->rest), "training binding");
    return same_ref(c, &a->key, &b->key, "training binding") &&
           same_ref(c, &a->value, &b->value, "training binding");
}

static bool same_training(Compare *c, const TrainingInfo *a, const TrainingInfo *b) {
    if (!same_nested(c, a->initialization, b->initialization) ||
        !same_nested(c, a->algorithm, b->algorithm))
        return false;
    SAME(a->initialization_bindings.count == b->initialization_bindings.count &&
             a->update_bindings.count == b->update_bindings.count,
         "number of training bindings");
    for (size_t i = 0; i < a->initialization_bindings.count; i++)
        if (!same_binding(c, &a->initialization_bindings.items[i],
                          &b->initialization_bindings.items[i]))
            return false;
    for (size_t i = 0; i < a->update_bindings.count; i++)
        if (!same_binding(c, &a->update_bindings.items[i], &b->update_bindings.items[i]))
            return false;
    SAME(same_bytes(a->rest, b->rest), "unknown fields of training info");
    return true;
}

static bool same_header(Compare *c, const Model *a, const Model *b) {
    SAME(a->has_ir_version == b->has_ir_version && a->ir_version == b->ir_version, "IR version");
    SAME(a->has_model_version == b->has_model_version && a->model_version == b->model_version,
         "model version");
    SAME(same_bytes(a->rest, b->rest), "unknown fields of the model");
    return same_sym(c, a->producer_name, b->producer_name, "producer name") &&
           same_sym(c, a->producer_version, b->producer_version, "producer version") &&
           same_sym(c, a->domain, b->domain, "domain of the model") &&
           same_sym(c, a->doc, b->doc, "doc string of the model") &&
           same_opsets(c, &a->opsets, &b->opsets) &&
           same_entries(c, a->metadata, b->metadata, "metadata of the model") &&
           same_count(c, a->functions.count, b->functions.count, "number of functions") &&
           same_count(c, a->training.count, b->training.count, "number of training infos");
}

bool model_compare(const Model *a, const Model *b, const CompareOptions *options, Err *err) {
    Compare compare = {.options = options, .err = err}, *c = &compare;
    GraphCursor start = {0}, *from = options && options->compared ? options->compared : &start;
    compare.parts = from != &start;
    if (!same_header(c, a, b) || !same_graph_end(c, a->graph, b->graph, from)) return false;
    for (size_t i = 0; i < a->functions.count; i++)
        if (!same_function(c, a->functions.items[i], b->functions.items[i])) return false;
    c->graph = NULL;
    for (size_t i = 0; i < a->training.count; i++)
        if (!same_training(c, a->training.items[i], b->training.items[i])) return false;
    return true;
}
