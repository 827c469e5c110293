// SPDX-License-Identifier: Apache-2.0
/* Rows are sorted by their names' places in memory; see range_table.h. */
#include "range_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text_distance.h"
#include "text_words.h"

/* The number up to the separator, or to the end; and where the next one begins, NULL at the end. */
static bool read_number(const char *text, char separator, double *number, const char **next) {
    const char *end = strchr(text, separator);
    const size_t length = end ? (size_t)(end - text) : strlen(text);
    *next = end ? end + 1 : NULL;
    return text_read_double(text, length, number);
}

/* "NUMBER,NUMBER,..." up to the end or the next ':', behind which *next is. */
static bool read_numbers(const char *text, size_t *count, const char **next) {
    const char *end = strchr(text, ':');
    *next = end ? end + 1 : NULL;
    for (*count = 1;; (*count)++) {
        double number;
        const size_t length = strcspn(text, ",:");
        if (!text_read_double(text, length, &number) || !isfinite(number)) return false;
        if (text[length] != ',') return true;
        text += length + 1;
    }
}

/* "AXIS:MEAN,MEAN,..." or "AXIS:MEAN,MEAN,...:ERROR,ERROR,...", as many of both. */
static bool read_means(const char *text, RangeText *range) {
    double number;
    const char *next;
    size_t errors;
    if (!read_number(text, ':', &number, &next) || !next || !(fabs(number) < 1e6) ||
        number != floor(number))
        return false;
    range->axis = (int32_t)number;
    range->means = next;
    if (!read_numbers(next, &range->mean_count, &next)) return false;
    range->errors = next;
    return !next || (read_numbers(next, &errors, &next) && !next && errors == range->mean_count);
}

bool range_text_read(const char *text, RangeText *range) {
    const char *split = strrchr(text, '='), *next;
    *range = (RangeText){0};
    if (!split || split == text) return false;
    range->name_length = (size_t)(split - text);
    if (!read_number(split + 1, ':', &range->low, &next)) return false;
    range->ends = next;
    if (range->ends && !read_number(next, ':', &range->high, &next)) return false;
    if (!range->ends) range->high = range->low;
    if (!range->ends) range->low = -range->high;
    return range->low <= range->high && (!next || read_means(next, range));
}

void range_text_numbers(const RangeText *range, const char *text, double *numbers) {
    for (size_t i = 0; i < range->mean_count; i++) {
        const size_t length = text ? strcspn(text, ",:") : 0;
        numbers[i] = 0;
        if (text) text_read_double(text, length, &numbers[i]);
        if (text) text += length + 1;
    }
}

static bool read_row(const Model *model, const char *text, Arena *scratch, RangeRow *row,
                     Err *err) {
    RangeText range;
    if (!range_text_read(text, &range)) {
        err_set(err, ERR_USAGE, "cannot parse range '%s'", text);
        err_expected(err, "NAME=MAX for a magnitude, NAME=MIN:MAX, or "
                          "NAME=MIN:MAX:AXIS:MEAN,...:ERROR,... for each channel along the axis");
        return false;
    }
    double *means = ARENA_ARRAY(scratch, double, range.mean_count + 1);
    double *errors = ARENA_ARRAY(scratch, double, range.mean_count + 1);
    range_text_numbers(&range, range.means, means);
    range_text_numbers(&range, range.errors, errors);
    *row = (RangeRow){.name = sym_find(&model->syms, text, range.name_length),
                      .text = text,
                      .low = range.low,
                      .high = range.high,
                      .axis = range.axis,
                      .mean_count = range.mean_count,
                      .means = means,
                      .errors = errors};
    return true;
}

/* By the name's place in memory: equal names are one. Order shows nowhere. */
static int by_name(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const RangeRow *)a)->name,
              y = (uintptr_t)((const RangeRow *)b)->name;
    return (x > y) - (x < y);
}

/* A value may be given a range twice, by a policy and an option, say. */
static size_t join_equal(RangeRow *rows, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        RangeRow *last = kept ? &rows[kept - 1] : NULL;
        if (last && rows[i].name && rows[i].name == last->name) {
            last->low = fmin(last->low, rows[i].low);
            last->high = fmax(last->high, rows[i].high);
            last->mean_count = 0;
        } else {
            rows[kept++] = rows[i];
        }
    }
    return kept;
}

bool range_table_read(const Model *model, const PassStrings *items, Arena *scratch,
                      RangeTable *table, Err *err) {
    *table = (RangeTable){.rows = ARENA_ARRAY(scratch, RangeRow, items->count)};
    for (size_t i = 0; i < items->count; i++)
        if (!read_row(model, items->items[i], scratch, &table->rows[i], err)) return false;
    if (items->count) qsort(table->rows, items->count, sizeof *table->rows, by_name);
    table->count = join_equal(table->rows, items->count);
    return true;
}

RangeRow *range_table_find(const RangeTable *table, Sym name) {
    RangeRow wanted = {.name = name};
    if (!table->count || !name) return NULL;
    return bsearch(&wanted, table->rows, table->count, sizeof wanted, by_name);
}

static void try_names(const Model *model, Arena *scratch, NearestName *nearest) {
    GraphList graphs = model_graphs(model, scratch);
    for (size_t g = 0; g < graphs.count; g++) {
        const Graph *graph = graphs.items[g];
        for (size_t i = 0; i < graph->inputs.count; i++)
            nearest_name_try(nearest, sym_text(graph->inputs.items[i]->name));
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i]) nearest_name_try(nearest, sym_text(node->outputs[i]->name));
    }
}

bool range_table_check(const RangeTable *table, const Model *model, Arena *scratch, Err *err) {
    for (size_t i = 0; i < table->count; i++) {
        const RangeRow *row = &table->rows[i];
        RangeText range;
        if (row->matched) continue;
        range_text_read(row->text, &range);
        const char *name = arena_copy(scratch, row->text, range.name_length);
        NearestName nearest = nearest_name_of(name);
        try_names(model, scratch, &nearest);
        err_set(err, ERR_USAGE, "the model has no value '%s', for which a range was given", name);
        if (nearest.best) err_hint(err, "did you mean '%s'?", nearest.best);
        return false;
    }
    return true;
}
