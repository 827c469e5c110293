// SPDX-License-Identifier: Apache-2.0
/* Rules of form; see model_check_form. They are those of onnx.checker that model_verify does not
 * have: a model that breaks one can be read, shown and converted all the same. */
#include <string.h>

#include "op_types.h"
#include "ops.h"
#include "verify.h"

enum { NEWEST_IR = 14, IR_OPSETS = 3, IR_FREE_INITIALIZERS = 4, IR_FUNCTIONS = 8 };

typedef struct Form {
    const Model *model;
    Arena *scratch;
    uint32_t *seen; /* [names]: by a name's number, the graph + 1 that defines it, while in scope */
    uint32_t *marks; /* [names]: by a name's number, the last list that it was met in */
    uint32_t list;
    Err *err;
} Form;

static bool form_error(Form *f, const Graph *graph, const char *what, const char *name) {
    err_set(f->err, ERR_MODEL, "%s", what);
    if (name) err_operand(f->err, "value '%s'", name);
    if (graph) err_graph(f->err, graph);
    return false;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* True where the name was met in this list already; f->list is its number. */
static bool is_again(Form *f, Sym name) {
    size_t number = name ? name->number : f->model->syms.count; /* an absent one is one, too */
    if (f->marks[number] == f->list) return true;
    f->marks[number] = f->list;
    return false;
}

static bool same_domain(Sym a, Sym b) {
    return domain_is_default(a) ? domain_is_default(b) : strcmp(sym_text(a), sym_text(b)) == 0;
}

static bool imports(const OpsetImports *opsets, Sym domain) {
    for (size_t i = 0; i < opsets->count; i++)
        if (same_domain(opsets->items[i].domain, domain)) return true;
    return false;
}

/* The version that this name of the default domain has: of several, the last counts; -1: none. */
static int64_t version_named(const OpsetImports *opsets, const char *name) {
    for (size_t i = opsets->count; i-- > 0;)
        if (strcmp(sym_text(opsets->items[i].domain), name) == 0) return opsets->items[i].version;
    return -1;
}

/* A domain may be imported again, but not under two names in two versions: readers differ in which of them
 * they take. */
static bool check_imports(Form *f, const OpsetImports *opsets) {
    const int64_t a = version_named(opsets, ""), b = version_named(opsets, "ai.onnx");
    if (a < 0 || b < 0 || a == b) return true;
    return err_set(f->err, ERR_MODEL, "imports two versions of one domain, as '' and as 'ai.onnx'");
}

static bool check_header(Form *f) {
    const Model *model = f->model;
    if (model->ir_version > NEWEST_IR) {
        err_set(f->err, ERR_MODEL, "the model's IR version is newer than this demi supports");
        err_expected(f->err, "at most %d", NEWEST_IR);
        err_actual(f->err, "%lld", (long long)model->ir_version);
        return false;
    }
    bool old = model->ir_version < IR_OPSETS;
    if (!old && !model->opsets.count)
        return err_set(f->err, ERR_MODEL, "the model imports no operator set");
    if (old && model->opsets.count)
        return err_set(f->err, ERR_MODEL,
                       "a model of this IR version must not import operator sets");
    if (!check_imports(f, &model->opsets)) return false;
    f->list++;
    for (const KeyValue *entry = model->metadata; entry; entry = entry->next)
        if (is_again(f, entry->key))
            return err_set(f->err, ERR_MODEL, "the model's metadata has a duplicate key: '%s'",
                           sym_text(entry->key));
    return true;
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* True where a type says all that an interface must: kinds, element types, shapes. */
static bool is_declared(const Type *type) {
    if (!type) return false;
    switch (type->kind) {
    case TYPE_NONE: return false;
    case TYPE_TENSOR:
    case TYPE_SPARSE_TENSOR: return type->has_dtype && type->has_shape;
    case TYPE_SEQUENCE:
    case TYPE_OPTIONAL:
    case TYPE_MAP: return type->elem != NULL;
    case TYPE_OPAQUE: return true;
    }
    return false;
}

static bool check_interface(Form *f, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.items[i];
        if (!is_declared(value->input->type))
            return form_error(f, graph, "an input without type or shape", sym_text(value->name));
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const GraphOutput *output = graph->outputs.items[i];
        if (!is_declared(output->decl->type))
            return form_error(f, graph, "an output without type or shape",
                              sym_text(output->use.value->name));
    }
    return true;
}

/* ---- sparse tensors -------------------------------------------------------------------------- */

static const char *sparse_fault(const SparseTensor *sparse, Arena *scratch) {
    const Tensor *values = sparse->values, *indices = sparse->indices;
    if (!values || !tensor_check(values, NULL)) return "a sparse tensor without values";
    if (values->rank != 1) return "values of a sparse tensor are not a list";
    if (!sparse->rank) return "a sparse tensor of rank 0";
    uint64_t size = 1;
    for (uint32_t i = 0; i < sparse->rank; i++) {
        if (sparse->dims[i] <= 0) return "dimensions of a sparse tensor are not positive";
        size *= (uint64_t)sparse->dims[i];
    }
    uint64_t count = (uint64_t)values->dims[0], items = 0;
    if (!indices) return count ? "a sparse tensor without indices" : NULL;
    if (!tensor_check(indices, NULL) || indices->dtype != DTYPE_INT64)
        return "indices of a sparse tensor are not int64";
    if (indices->rank != 1 && indices->rank != 2)
        return "indices of a sparse tensor do not have rank 1 or 2";
    if ((uint64_t)indices->dims[0] != count)
        return "the numbers of indices and values of a sparse tensor differ";
    uint64_t per = indices->rank == 2 ? (uint64_t)indices->dims[1] : 1;
    if (indices->rank == 2 && per != sparse->rank)
        return "indices of a sparse tensor have a different rank";
    int64_t *numbers;
    if (!tensor_read_ints(indices, scratch, UINT32_MAX, &numbers, &items)) return NULL;
    uint64_t previous = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = 0;
        for (uint64_t k = 0; k < per; k++) {
            uint64_t limit = per == 1 ? size : (uint64_t)sparse->dims[k];
            int64_t number = numbers[i * per + k];
            if (number < 0 || (uint64_t)number >= limit)
                return "an index of a sparse tensor is out of range";
            at = at * limit + (uint64_t)number;
        }
        if (i && at <= previous) return "indices of a sparse tensor are not in order";
        previous = at;
    }
    return NULL;
}

static bool check_sparse(Form *f, const Node *node, const SparseTensor *sparse, const char *name) {
    const char *fault = sparse ? sparse_fault(sparse, f->scratch) : NULL;
    if (!fault) return true;
    if (node)
        node_error(node, f->err, ERR_MODEL, "%s", fault);
    else
        err_set(f->err, ERR_MODEL, "%s", fault);
    err_operand(f->err, "%s '%s'", node ? "attribute" : "initializer", name);
    return false;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool check_attrs(Form *f, const Node *node) {
    f->list++;
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        if (is_again(f, attr->name)) {
            node_error(node, f->err, ERR_MODEL, "a duplicate attribute");
            err_operand(f->err, "attribute '%s'", sym_text(attr->name));
            return false;
        }
        if (attr->ref && !node->graph->function) {
            node_error(node, f->err, ERR_MODEL,
                       "an attribute refers to a function's attribute, but is not in a function");
            err_operand(f->err, "attribute '%s'", sym_text(attr->name));
            return false;
        }
        if (attr->type == ATTR_SPARSE_TENSOR &&
            !check_sparse(f, node, attr_sparse(attr), sym_text(attr->name)))
            return false;
    }
    return true;
}

static bool check_node(Form *f, const Node *node) {
    if (node->input_count == 0 && node->output_count == 0)
        return node_error(node, f->err, ERR_MODEL, "a node without inputs and outputs");
    if (!imports(node->graph->opsets, node->domain)) {
        node_error(node, f->err, ERR_MODEL, "the operator's domain is not imported");
        err_expected(f->err, "an opset import of '%s'", sym_text(node->domain));
        return false;
    }
    return check_attrs(f, node);
}

static bool check_graph(Form *f, const Graph *graph);

typedef struct NestedForm {
    Form *f;
    bool ok;
} NestedForm;

static void check_nested(Graph *graph, void *data) {
    NestedForm *nested = data;
    if (nested->ok) nested->ok = check_graph(nested->f, graph);
}

/* A graph's names come into scope, and leave it. */
static bool enter(Form *f, const Graph *graph, const Value *value) {
    uint32_t *seen = &f->seen[value->name->number];
    if (*seen) return form_error(f, graph, "a name is used for two values", sym_text(value->name));
    *seen = graph->id + 1;
    return true;
}

static void leave(Form *f, const Graph *graph, const Value *value) {
    uint32_t *seen = &f->seen[value->name->number];
    if (*seen == graph->id + 1) *seen = 0;
}

/* Inputs and initializers may hide what lies around; what nodes compute may not. */
static void enter_formals(Form *f, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) {
        uint32_t *seen = &f->seen[graph->inputs.items[i]->name->number];
        if (!*seen) *seen = graph->id + 1;
    }
    for (size_t i = 0; i < graph->initializers.count; i++) {
        uint32_t *seen = &f->seen[graph->initializers.items[i]->name->number];
        if (!*seen) *seen = graph->id + 1;
    }
}

static void leave_graph(Form *f, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) leave(f, graph, graph->inputs.items[i]);
    for (size_t i = 0; i < graph->initializers.count; i++)
        leave(f, graph, graph->initializers.items[i]);
    for (const Node *node = graph->first; node; node = node_after(node))
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i]) leave(f, graph, node->outputs[i]);
}

static bool check_initializers(Form *f, const Graph *graph) {
    bool listed = f->model->ir_version < IR_FREE_INITIALIZERS && !graph->function;
    for (size_t i = 0; listed && i < graph->initializers.count; i++) {
        const Value *value = graph->initializers.items[i];
        if (!value->input)
            return form_error(f, graph, "before IR version 4, an initializer must also be an input",
                              sym_text(value->name));
    }
    for (size_t i = 0; i < graph->sparse_initializers.count; i++) {
        const Value *value = graph->sparse_initializers.items[i];
        if (!check_sparse(f, NULL, value->sparse_init, sym_text(value->name))) return false;
    }
    return true;
}

static bool check_nodes(Form *f, const Graph *graph) {
    for (const Node *node = graph->first; node; node = node_after(node)) {
        if (!check_node(f, node)) return false;
        NestedForm nested = {f, true};
        node_each_graph(node, check_nested, &nested);
        if (!nested.ok) return false;
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && !enter(f, graph, node->outputs[i])) return false;
    }
    return true;
}

static bool check_infos(Form *f, const Graph *graph) {
    for (size_t i = 0; i < graph->infos.count; i++)
        if (sym_is_empty(graph->infos.items[i]->name))
            return form_error(f, graph, "an entry of value_info without a name", NULL);
    return true;
}

static bool check_graph(Form *f, const Graph *graph) {
    bool whole = !graph->function || graph->owner; /* a function's body has no name */
    if (!graph_check_nesting(graph, f->err)) return false;
    if (whole && sym_is_empty(graph->name))
        return form_error(f, graph, "a graph without a name", NULL);
    if (!check_initializers(f, graph) || !check_infos(f, graph)) return false;
    enter_formals(f, graph);
    if (!check_nodes(f, graph)) return false;
    for (size_t i = 0; whole && i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.items[i]->use.value;
        if (value->graph != graph)
            return form_error(f, graph, "a subgraph returns a value of an outer graph",
                              sym_text(value->name));
    }
    leave_graph(f, graph);
    return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool function_error(Form *f, const Function *function, const char *what) {
    return err_set(f->err, ERR_MODEL, "function '%s': %s", sym_text(function->name), what);
}

/* True where an operator means the same in the function and in the model. */
static bool opsets_agree(Form *f, const Node *node) {
    int64_t own = opset_version(node->graph->opsets, node->domain);
    int64_t other = opset_version(&f->model->opsets, node->domain);
    if (!imports(&f->model->opsets, node->domain) || own == other) return true;
    const OpSchema *a = ops_find_sym(node->domain, node->op_type, own);
    const OpSchema *b = ops_find_sym(node->domain, node->op_type, other);
    if (a == b) return true;
    node_error(node, f->err, ERR_MODEL,
               "the function's opset has a different version of the operator");
    err_expected(f->err, "that of opset %lld", (long long)other);
    err_actual(f->err, "opset %lld", (long long)own);
    return false;
}

static bool check_function(Form *f, const Function *function) {
    const Graph *body = function->body;
    if (sym_is_empty(function->name))
        return err_set(f->err, ERR_MODEL, "a function without a name");
    if (!function->domain) return function_error(f, function, "no domain");
    if (!check_imports(f, &function->opsets)) return false;
    f->list++;
    for (size_t i = 0; i < body->outputs.count; i++)
        if (is_again(f, body->outputs.items[i]->use.value->name))
            return function_error(f, function, "a duplicate output");
    f->list++;
    for (size_t i = 0; i < function->attributes.count; i++)
        if (is_again(f, function->attributes.items[i]))
            return function_error(f, function, "a duplicate attribute");
    for (const Node *node = body->first; node; node = node_after(node))
        if (imports(body->opsets, node->domain) && !opsets_agree(f, node)) return false;
    return check_graph(f, body);
}

/* Of functions that are called alike the first is called, and the others never. */
static bool is_shadowed(Form *f, const Function *function) {
    const NodeExtra extra = {.overload = function->overload};
    const Node call = {.op_type = function->name, .domain = function->domain, .extra = &extra};
    return model_find_function(f->model, &call) != function;
}

static bool check_functions(Form *f) {
    const Model *model = f->model;
    if (model->ir_version < IR_FUNCTIONS) return true; /* they mean nothing there */
    for (size_t i = 0; i < model->functions.count; i++) {
        if (is_shadowed(f, model->functions.items[i]))
            return function_error(f, model->functions.items[i], "is a duplicate");
        if (!check_function(f, model->functions.items[i])) return false;
    }
    return true;
}

bool model_check_interface(const Model *model, Arena *scratch, Err *err) {
    Form f = {.model = model, .scratch = scratch, .err = err};
    return check_interface(&f, model->graph);
}

bool model_check_form(const Model *model, Arena *scratch, Err *err) {
    Form f = {.model = model, .scratch = scratch, .err = err};
    f.seen = ARENA_ARRAY(scratch, uint32_t, model->syms.count + 1u);
    f.marks = ARENA_ARRAY(scratch, uint32_t, model->syms.count + 1u);
    return check_header(&f) && check_graph(&f, model->graph) && check_functions(&f);
}
