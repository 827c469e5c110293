// SPDX-License-Identifier: Apache-2.0
/* Deciding as it is told, value by value; see qdq_plan.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "constants.h"
#include "op_types.h"
#include "qdq_plan.h"
#include "text_distance.h"

typedef struct Named {
    Sym name; /* NULL where the model has no such name */
    const char *text;
    const QuantizedFormat *format;
    bool matched;
} Named;

typedef struct Names {
    Named *items;
    size_t count;
} Names;

/* By the name's place in memory; order shows nowhere. */
static int by_name(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const Named *)a)->name, y = (uintptr_t)((const Named *)b)->name;
    return (x > y) - (x < y);
}

static bool read_names(const QdqPlan *plan, const PassStrings *texts, bool weights, Names *names,
                       Err *err) {
    *names = (Names){ARENA_ARRAY(plan->scratch, Named, texts->count), texts->count};
    for (size_t i = 0; i < texts->count; i++) {
        const char *text = texts->items[i], *split = strrchr(text, '=');
        const QuantizedFormat *format = split ? quantized_format_named(split + 1, weights) : NULL;
        if (!format) {
            char list[80];
            quantized_format_list(weights, list, sizeof list);
            err_set(err, ERR_USAGE, "'%s' does not consist of %s and its type", text,
                    weights ? "constant" : "value");
            err_expected(err, "NAME=%s", list);
            return false;
        }
        const size_t length = (size_t)(split - text);
        names->items[i] = (Named){sym_find(&plan->model->syms, text, length), text, format, false};
    }
    if (names->count) qsort(names->items, names->count, sizeof *names->items, by_name);
    return true;
}

static Named *find(const Names *names, const Value *value) {
    const Named wanted = {.name = value->name};
    if (!names->count) return NULL;
    return bsearch(&wanted, names->items, names->count, sizeof wanted, by_name);
}

static bool check_names(const QdqPlan *plan, const Names *names, const char *what, Err *err) {
    for (size_t i = 0; i < names->count; i++) {
        const Named *row = &names->items[i];
        if (row->matched) continue;
        const char *name =
            arena_copy(plan->scratch, row->text, (size_t)(strrchr(row->text, '=') - row->text));
        NearestName nearest = nearest_name_of(name);
        for (uint32_t id = 0; id < plan->value_count; id++)
            if (plan->values[id].value)
                nearest_name_try(&nearest, sym_text(plan->values[id].value->name));
        err_set(err, ERR_USAGE, "the model has no %s '%s'", what, name);
        if (nearest.best && strcmp(nearest.best, name))
            err_hint(err, "did you mean '%s'?", nearest.best);
        return false;
    }
    return true;
}

static bool take_value(QdqPlan *plan, const Value *value, Dtype dtype, Err *err) {
    QdqValue *at = &plan->values[value->id];
    const int64_t opset = opset_version(value->graph->opsets, NULL),
                  least = qdq_opset_of(dtype, false, false);
    if (!at->range || !isfinite(at->range->low) || !isfinite(at->range->high)) {
        err_set(err, ERR_USAGE, "'%s' has no range, but is to be quantized to %s",
                sym_text(value->name), dtype_name(dtype));
        err_hint(err, "ranges=[\"NAME=MIN:MAX\",...] gives it one");
        return false;
    }
    if (opset < least) {
        err_set(err, ERR_USAGE, "'%s' cannot be %s at opset %d", sym_text(value->name),
                dtype_name(dtype), (int)opset);
        err_hint(err, "run upgrade-opset{to=%d} before", (int)least);
        return false;
    }
    at->dtype = dtype;
    at->for_all = at->as_output = true;
    return true;
}

static bool take_values(QdqPlan *plan, const Names *names, Err *err) {
    for (uint32_t id = 0; id < plan->value_count; id++) {
        const Value *value = plan->values[id].value;
        Named *row = value ? find(names, value) : NULL;
        if (!row || value->graph->function || !qdq_is_float(value) || value_is_constant(value))
            continue;
        row->matched = true;
        if (!take_value(plan, value, row->format->dtype, err)) return false;
    }
    return check_names(plan, names, "float value", err);
}

/* A product whose weights are named. */
static bool take_product(QdqPlan *plan, Node *node, const Names *names, Err *err) {
    const OpRecord *record = qdq_record(plan, node);
    const char *blame = NULL;
    QdqWeight weight = {0};
    if (!record ||
        (record->quantized != QUANTIZED_PRODUCT && record->quantized != QUANTIZED_WEIGHTS) ||
        !qdq_input(node, qdq_weights_operand(node, record)))
        return true;
    qdq_weight_find(plan, node, record, &weight, &blame);
    Named *row = weight.value ? find(names, weight.value) : NULL;
    if (!row || !value_is_constant(weight.value)) return true;
    row->matched = true;
    if (qdq_weight_take(plan, node, row->format, &blame)) {
        if (record->quantized == QUANTIZED_PRODUCT) plan->nodes[node->id].role = QDQ_PRODUCT;
        return true;
    }
    err_set(err, ERR_USAGE, "'%s' cannot be %s: %s", sym_text(weight.value->name),
            row->format->word, blame ? blame : "its channels are not known");
    return false;
}

/* A constant that no product reads as its weights has one scale. */
static bool take_other(QdqPlan *plan, Value *value, const Named *row, Err *err) {
    const int64_t opset = opset_version(value->graph->opsets, NULL);
    const Tensor *tensor = constant_tensor(value, plan->scratch);
    const bool sound = tensor && tensor->dtype == DTYPE_FLOAT && tensor_check(tensor, NULL) &&
                       tensor_count(tensor) && !plan->request.broken[value->id];
    if (!sound || row->format->block || opset < qdq_opset_of(row->format->dtype, false, false))
        return err_set(err, ERR_USAGE, "'%s' cannot be %s here", sym_text(value->name),
                       row->format->word);
    for (Use *use = value->uses; use; use = use->next)
        if (use->node)
            VEC_PUSH(plan->scratch, &plan->weights,
                     ((QdqWeight){.value = value, .use = use, .format = row->format, .axis = -1}));
    return true;
}

static bool take_weights(QdqPlan *plan, const Names *names, Err *err) {
    for (size_t g = 0; g < plan->graphs.count; g++)
        for (Node *node = plan->graphs.items[g]->first; node; node = node_after(node))
            if (!take_product(plan, node, names, err)) return false;
    for (uint32_t id = 0; id < plan->value_count; id++) {
        Value *value = plan->values[id].value;
        Named *row = value && value_is_constant(value) ? find(names, value) : NULL;
        if (!row || row->matched || value->graph->function) continue;
        row->matched = true;
        if (!take_other(plan, value, row, err)) return false;
    }
    return check_names(plan, names, "float constant", err);
}

bool qdq_plan_by_names(QdqPlan *plan, Err *err) {
    Names values, weights;
    if (!read_names(plan, &plan->request.values, false, &values, err) ||
        !read_names(plan, &plan->request.weights_of, true, &weights, err) ||
        !take_values(plan, &values, err) || !take_weights(plan, &weights, err))
        return false;
    qdq_plan_link(plan);
    return true;
}
