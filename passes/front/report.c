// SPDX-License-Identifier: Apache-2.0
/* Counting of a model's nodes, weights, casts and types; see report.h.
 *
 * Each list with a before and an after column is a Table: rows found by interned name, so that
 * counting is linear however many operators, dtypes or reasons a model has.
 */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_note.h"
#include "op_types.h"
#include "placement_cost.h"
#include "report_advice.h"
#include "sym.h"

enum { LIST_COUNT = DEMI_REPORT_REMARKS + 1 };

typedef enum Column { BEFORE, AFTER } Column;

typedef struct Table {
    VEC(DemiReportRow) rows;
    Sym *keys; /* open addressing, a power of two; rows[indices[i]] belongs to keys[i] */
    uint32_t *indices;
    size_t capacity;
} Table;

struct DemiReport {
    Arena arena;
    SymTable syms;
    DemiReportTotals totals;
    VEC(DemiReportNode) nodes;
    VEC(DemiReportTensor) tensors;
    Table lists[LIST_COUNT];
    struct {
        const char *text;
        Sym own;
    } met[64]; /* texts of the model at hand that were met last, by address */
    AdviceFacts facts;
};

DemiReport *report_new(MemTrap *trap) {
    Arena arena;
    arena_init(&arena, trap);
    DemiReport *report = ARENA_NEW(&arena, DemiReport);
    report->arena = arena;
    sym_table_init(&report->syms, &report->arena);
    return report;
}

void demi_report_free(DemiReport *report) {
    if (!report) return;
    Arena arena = report->arena; /* the report itself lies in it */
    arena_free(&arena);
}

/* The report's own copy of a text that lies still while the model is walked. Nodes share theirs, so
 * most are known by address. */
static Sym own_text(DemiReport *report, const char *text) {
    size_t place = (size_t)((uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15) >> 58);
    if (report->met[place].text != text) {
        report->met[place].text = text;
        report->met[place].own = sym_intern_cstr(&report->syms, text);
    }
    return report->met[place].own;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static size_t slot_of(const Table *table, Sym key) {
    size_t i = sym_hash(key) & (table->capacity - 1);
    while (table->keys[i] && table->keys[i] != key) i = (i + 1) & (table->capacity - 1);
    return i;
}

static void table_grow(Arena *arena, Table *table) {
    Table old = *table;
    table->capacity = old.capacity ? old.capacity * 2 : 64;
    table->keys = ARENA_ARRAY(arena, Sym, table->capacity);
    table->indices = ARENA_ARRAY(arena, uint32_t, table->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        if (!old.keys[i]) continue;
        size_t slot = slot_of(table, old.keys[i]);
        table->keys[slot] = old.keys[i];
        table->indices[slot] = old.indices[i];
    }
}

/* The row of that name, made if need be; valid until the next one is made. */
static DemiReportRow *row_named(DemiReport *report, DemiReportList list, Sym key) {
    Table *table = &report->lists[list];
    if (table->rows.count * 2 >= table->capacity) table_grow(&report->arena, table);
    size_t slot = slot_of(table, key);
    if (!table->keys[slot]) {
        DemiReportRow row = {.name = key->text, .text_before = "", .text_after = ""};
        table->keys[slot] = key;
        table->indices[slot] = (uint32_t)table->rows.count;
        VEC_PUSH(&report->arena, &table->rows, row);
    }
    return &table->rows.items[table->indices[slot]];
}

static void row_add(DemiReport *report, DemiReportList list, Sym name, Column column,
                    uint64_t amount) {
    DemiReportRow *row = row_named(report, list, name);
    if (column == BEFORE)
        row->before += amount;
    else
        row->after += amount;
}

static int compare_rows(const void *a, const void *b) {
    const DemiReportRow *x = a, *y = b;
    if (x->after != y->after) return x->after < y->after ? 1 : -1;
    if (x->before != y->before) return x->before < y->before ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void sort_rows(DemiReport *report, DemiReportList list) {
    Table *table = &report->lists[list];
    if (table->rows.count) {
        qsort(table->rows.items, table->rows.count, sizeof *table->rows.items, compare_rows);
    }
}

/* ---- text of types --------------------------------------------------------------------------- */

static const char *dims_text(Arena *arena, const Type *type) {
    const char *text = "";
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        const char *comma = i ? "," : "";
        switch (dim->kind) {
        case DIM_UNKNOWN: text = arena_printf(arena, "%s%s?", text, comma); break;
        case DIM_KNOWN:
            text = arena_printf(arena, "%s%s%lld", text, comma, (long long)dim->size);
            break;
        case DIM_SYMBOL:
            text = arena_printf(arena, "%s%s%s", text, comma, sym_text(dim->symbol));
            break;
        }
    }
    return text;
}

/* Such as float[N,3], or seq(float); "?" where unknown. Nesting is bounded by the reader. */
static const char *type_text(Arena *arena, const Type *type) {
    if (!type) return "?";
    const char *dtype = dtype_name((Dtype)type->dtype);
    switch (type->kind) {
    case TYPE_NONE: return "?";
    case TYPE_OPAQUE: return "opaque";
    case TYPE_TENSOR:
        if (!type->has_shape) return dtype;
        return arena_printf(arena, "%s[%s]", dtype, dims_text(arena, type));
    case TYPE_SPARSE_TENSOR:
        return arena_printf(arena, "sparse_tensor(%s[%s])", dtype, dims_text(arena, type));
    case TYPE_SEQUENCE: return arena_printf(arena, "seq(%s)", type_text(arena, type->elem));
    case TYPE_OPTIONAL: return arena_printf(arena, "optional(%s)", type_text(arena, type->elem));
    case TYPE_MAP: return arena_printf(arena, "map(%s,%s)", dtype, type_text(arena, type->elem));
    }
    return "?";
}

/* ---- weights --------------------------------------------------------------------------------- */

static uint64_t strings_size(const Tensor *tensor) {
    uint64_t size = 0;
    for (uint64_t i = 0; i < tensor->string_count; i++) size += tensor->strings[i].size;
    return size;
}

static void count_tensor(DemiReport *report, const Tensor *tensor, Column column) {
    if (!tensor || !tensor_check(tensor, NULL)) return;
    uint64_t size =
        tensor->storage == TENSOR_STRINGS ? strings_size(tensor) : tensor_raw_size(tensor);
    Sym dtype = own_text(report, dtype_name((Dtype)tensor->dtype));
    row_add(report, DEMI_REPORT_WEIGHTS, dtype, column, size);
    if (column == BEFORE)
        report->totals.bytes_before += size;
    else
        report->totals.bytes_after += size;
}

static void count_sparse(DemiReport *report, const SparseTensor *sparse, Column column) {
    if (!sparse) return;
    count_tensor(report, sparse->values, column);
    count_tensor(report, sparse->indices, column);
}

static void count_attr(DemiReport *report, const Attr *attr, Column column) {
    uint32_t count;
    count_tensor(report, attr_tensor(attr), column);
    count_sparse(report, attr_sparse(attr), column);
    const Tensor *const *tensors = attr_tensors(attr, &count);
    for (uint32_t i = 0; i < count; i++) count_tensor(report, tensors[i], column);
    const SparseTensor *const *sparses = attr_sparses(attr, &count);
    for (uint32_t i = 0; i < count; i++) count_sparse(report, sparses[i], column);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_inserted(const Node *node) {
    return node->metadata && sym_equals(node_metadata(node, "demi.inserted"), "cast");
}

static void count_operator(DemiReport *report, const Node *node, Column column) {
    if (domain_is_default(node->domain)) {
        row_add(report, DEMI_REPORT_OPERATORS, own_text(report, sym_text(node->op_type)), column,
                1);
        return;
    }
    char name[256];
    snprintf(name, sizeof name, "%s.%s", sym_text(node->domain), sym_text(node->op_type));
    row_add(report, DEMI_REPORT_OPERATORS, sym_intern_cstr(&report->syms, name), column, 1);
}

/* The precision a node was given. A constant's is that of its data: it is decided with its readers,
 * by later passes. A call of a function without inputs is not a constant where one of its outputs
 * is low. */
static Dtype node_dtype(const Node *node) {
    bool typed = node->output_count > 0 && node->outputs[0];
    Dtype dtype = typed ? type_dtype(node->outputs[0]->type) : DTYPE_UNDEFINED;
    if (!node->note) return dtype;
    bool constant = node->input_count == 0 && node->note->kind != NOTE_LOW;
    return constant && dtype != DTYPE_UNDEFINED ? dtype : node->note->dtype;
}

/* A row of the report's own texts, behind the others. */
static void add_row(DemiReport *report, DemiReportList list, const char *name, const char *before,
                    const char *after) {
    const DemiReportRow row = {.name = arena_copy(&report->arena, name, strlen(name)),
                               .text_before = before,
                               .text_after = after};
    VEC_PUSH(&report->arena, &report->lists[list].rows, row);
}

/* Beside the model's own nodes; the last of those that pick rows of a quantized table stands for a Gather. */
static bool is_added_quantizer(const Node *node) {
    return node_is_own_quantizer(node) && (sym_equals(node->op_type, "QuantizeLinear") ||
                                           sym_equals(node->op_type, "DequantizeLinear"));
}

static void list_node(DemiReport *report, const Node *node, const char *path) {
    if (is_inserted(node)) {
        report->totals.casts_remaining++;
        return;
    }
    if (is_added_quantizer(node)) return;
    Dtype dtype = node_dtype(node);
    const char *label = node_label(node);
    const char *reason = node->note ? node_note_text(node->note, &report->arena) : "";
    bool plain = !node->note || reason == node->note->reason; /* else it is in the report's arena */
    Sym domain = domain_is_default(node->domain) ? NULL : node->domain;
    DemiReportNode row = {
        .name = arena_copy(&report->arena, label, strlen(label)),
        .op_type = own_text(report, sym_text(node->op_type))->text,
        .domain = own_text(report, sym_text(domain))->text,
        .graph = path,
        .dtype = dtype == DTYPE_UNDEFINED ? "" : dtype_name(dtype),
        .reason = plain ? own_text(report, reason)->text : reason,
        .kind = note_kind_name(node->note ? node->note->kind : NOTE_NONE),
    };
    VEC_PUSH(&report->arena, &report->nodes, row);
    if (!node->note) return;
    advice_take_node(&report->facts, node);
    const Type *uneven = advice_uneven(node);
    if (uneven) add_row(report, DEMI_REPORT_UNEVEN, label, "", type_text(&report->arena, uneven));
    const char *group = node_note_group(node->note);
    if (dtype == DTYPE_FLOAT)
        row_add(report, DEMI_REPORT_REASONS, own_text(report, group), AFTER, 1);
}

/* The path that messages name the graph by. */
static const char *path_of(DemiReport *report, const Graph *graph) {
    char path[GRAPH_PATH];
    graph_path(graph, path);
    return *path ? arena_copy(&report->arena, path, strlen(path)) : "";
}

/* ---- whole models ---------------------------------------------------------------------------- */

static void count_graph(DemiReport *report, const Graph *graph, Column column) {
    const char *path = column == AFTER ? path_of(report, graph) : "";
    for (size_t i = 0; i < graph->initializers.count; i++)
        count_tensor(report, graph->initializers.items[i]->init, column);
    for (size_t i = 0; i < graph->sparse_initializers.count; i++)
        count_sparse(report, graph->sparse_initializers.items[i]->sparse_init, column);
    for (const Node *node = graph->first; node; node = node_after(node)) {
        count_operator(report, node, column);
        for (const Attr *attr = node->attrs; attr; attr = attr->next)
            count_attr(report, attr, column);
        if (column == AFTER) list_node(report, node, path);
    }
    uint64_t *nodes = column == BEFORE ? &report->totals.nodes_before : &report->totals.nodes_after;
    *nodes += graph->node_count;
}

/* Declared types of the main graph's inputs or outputs, matched by position. */
static void take_io(DemiReport *report, const Model *model, DemiReportList list, Column column) {
    const Graph *graph = model->graph;
    bool inputs = list == DEMI_REPORT_INPUTS;
    size_t count = inputs ? graph->inputs.count : graph->outputs.count;
    Table *table = &report->lists[list];
    for (size_t i = 0; i < count; i++) {
        const Value *value = inputs ? graph->inputs.items[i] : graph->outputs.items[i]->use.value;
        const ValueDecl *decl = inputs ? value->input : graph->outputs.items[i]->decl;
        /* A text file or an older IR may declare nothing; what was inferred is the next best. */
        const Type *type = decl && decl->type ? decl->type : value->type;
        if (i >= table->rows.count) {
            DemiReportRow row = {.text_before = "", .text_after = ""};
            row.name =
                arena_copy(&report->arena, sym_text(value->name), strlen(sym_text(value->name)));
            VEC_PUSH(&report->arena, &table->rows, row);
        }
        DemiReportRow *row = &table->rows.items[i];
        *(column == BEFORE ? &row->text_before : &row->text_after) =
            type_text(&report->arena, type);
    }
}

static void take_training(DemiReport *report, const TrainingInfo *info) {
    Arena *arena = &report->arena;
    const DemiReportList list = DEMI_REPORT_TRAINING;
    const Graph *graph = info->algorithm;
    for (size_t i = 0; graph && i < graph->inputs.count; i++) {
        const Value *value = graph->inputs.items[i];
        add_row(report, list, sym_text(value->name), "input", type_text(arena, value->input->type));
    }
    for (size_t i = 0; graph && i < graph->outputs.count; i++) {
        const GraphOutput *output = graph->outputs.items[i];
        const Type *type = output->decl->type ? output->decl->type : output->use.value->type;
        add_row(report, list, sym_text(output->use.value->name), "output", type_text(arena, type));
    }
    for (size_t i = 0; i < info->update_bindings.count; i++) {
        const NameRef *key = &info->update_bindings.items[i].key;
        const Tensor *init = key->value ? key->value->init : NULL;
        add_row(report, list, sym_text(key->name), "update",
                type_text(arena, init ? type_of_tensor(arena, init) : NULL));
    }
}

static void take_opsets(DemiReport *report, const Model *model, Column column) {
    for (size_t i = 0; i < model->opsets.count; i++) {
        const OpsetImport *import = &model->opsets.items[i];
        const char *name = domain_is_default(import->domain) ? "ai.onnx" : import->domain->text;
        DemiReportRow *row = row_named(report, DEMI_REPORT_OPSETS, own_text(report, name));
        *(column == BEFORE ? &row->before : &row->after) = (uint64_t)import->version;
    }
}

static void take_model(DemiReport *report, const Model *model, Column column) {
    memset(report->met, 0, sizeof report->met);
    GraphList graphs = model_graphs(model, &report->arena);
    for (size_t i = 0; i < graphs.count; i++) count_graph(report, graphs.items[i], column);
    take_io(report, model, DEMI_REPORT_INPUTS, column);
    take_io(report, model, DEMI_REPORT_OUTPUTS, column);
    take_opsets(report, model, column);
    for (size_t i = 0; column == AFTER && i < model->training.count; i++)
        take_training(report, model->training.items[i]);
    int64_t ir = model->has_ir_version ? model->ir_version : 0;
    *(column == BEFORE ? &report->totals.ir_before : &report->totals.ir_after) = ir;
}

void report_take_before(DemiReport *report, const Model *model) {
    take_model(report, model, BEFORE);
}

void report_runs_here(DemiReport *report) {
    report->facts.here = true;
}

void report_take_pass(DemiReport *report, const char *name, uint64_t rewrites, double seconds) {
    DemiReportRow row = {.text_before = "", .text_after = "", .after = rewrites};
    row.name = arena_copy(&report->arena, name, strlen(name));
    row.seconds = seconds;
    VEC_PUSH(&report->arena, &report->lists[DEMI_REPORT_PASSES].rows, row);
    report->totals.rewrites += rewrites;
    report->totals.seconds += seconds;
}

static void take_advice(DemiReport *report, const PassCounts *counts) {
    for (const PassRemark *remark = counts ? counts->remarks : NULL; remark; remark = remark->next)
        for (int to = 0; to < 2; to++)
            add_row(report, to ? DEMI_REPORT_REMARKS : DEMI_REPORT_ADVICE, remark->text, "", "");
    report->facts.casts = report->totals.casts_remaining;
    report->facts.smaller = report->totals.bytes_after < report->totals.bytes_before / 100 * 99;
    for (int kind = 0; kind < ADVICE_COUNT; kind++) {
        const char *text = advice_text(&report->facts, (Advice)kind, &report->arena);
        if (text) add_row(report, DEMI_REPORT_ADVICE, text, "", "");
    }
}

static void take_losses(DemiReport *report, const TensorLoss *loss) {
    static const DemiTensorFate fates[] = {[LOSS_STORED] = DEMI_TENSOR_STORED,
                                           [LOSS_CLAMPED] = DEMI_TENSOR_CLAMPED,
                                           [LOSS_KEPT] = DEMI_TENSOR_KEPT};
    for (; loss; loss = loss->next) {
        DemiReportTensor row = {.name = arena_copy(&report->arena, loss->name, strlen(loss->name)),
                                .fate = fates[loss->fate],
                                .count = loss->statistics.count,
                                .overflow = loss->statistics.overflow,
                                .underflow = loss->statistics.underflow,
                                .subnormal = loss->statistics.subnormal,
                                .max_abs = (double)loss->statistics.max_abs,
                                .min_abs = (double)loss->statistics.min_abs};
        VEC_PUSH(&report->arena, &report->tensors, row);
    }
}

static void take_cost(DemiReport *report, const Model *model) {
    PlacementCost cost = placement_cost_of_model(model, &report->arena);
    report->totals.run_bytes_converted = cost.bytes_converted;
    report->totals.run_bytes_fp32 = cost.bytes_fp32;
    report->totals.run_bytes_stored = cost.bytes_stored;
    report->totals.run_cost = placement_cost_sum(cost);
}

void report_take_after(DemiReport *report, const Model *model, const PassCounts *counts) {
    take_model(report, model, AFTER);
    take_cost(report, model);
    if (counts) {
        report->totals.casts_added = counts->casts_added;
        report->totals.casts_removed = counts->casts_removed;
        report->totals.casts_fused = counts->casts_fused;
        report->totals.overflow = counts->overflow;
        report->totals.underflow = counts->underflow;
        report->totals.subnormal = counts->subnormal;
        take_losses(report, counts->losses);
    }
    sort_rows(report, DEMI_REPORT_OPERATORS);
    sort_rows(report, DEMI_REPORT_WEIGHTS);
    sort_rows(report, DEMI_REPORT_REASONS);
    take_advice(report, counts);
}

/* ---- reading --------------------------------------------------------------------------------- */

const DemiReportTotals *demi_report_totals(const DemiReport *report) {
    return &report->totals;
}

size_t demi_report_node_count(const DemiReport *report) {
    return report->nodes.count;
}

const DemiReportNode *demi_report_node(const DemiReport *report, size_t i) {
    return i < report->nodes.count ? &report->nodes.items[i] : NULL;
}

size_t demi_report_tensor_count(const DemiReport *report) {
    return report->tensors.count;
}

const DemiReportTensor *demi_report_tensor(const DemiReport *report, size_t i) {
    return i < report->tensors.count ? &report->tensors.items[i] : NULL;
}

size_t demi_report_row_count(const DemiReport *report, DemiReportList list) {
    return (unsigned)list < LIST_COUNT ? report->lists[list].rows.count : 0;
}

const DemiReportRow *demi_report_row(const DemiReport *report, DemiReportList list, size_t i) {
    return i < demi_report_row_count(report, list) ? &report->lists[list].rows.items[i] : NULL;
}
