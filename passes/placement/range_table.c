// SPDX-License-Identifier: Apache-2.0
/* Rows are sorted by their names' places in memory; see range_table.h. */
#include "range_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text_distance.h"
#include "text_words.h"

bool range_text_read(const char *text, RangeText *range) {
    const char *split = strrchr(text, '=');
    *range = (RangeText){0};
    if (!split || split == text) return false;
    range->name_length = (size_t)(split - text);
    double *const numbers[] = {&range->low, &range->high, &range->mean};
    size_t count = 0;
    for (const char *number = split; number; count++) {
        const char *first = number + 1, *end = strchr(first, ':');
        const size_t length = end ? (size_t)(end - first) : strlen(first);
        if (count == 3 || !text_read_double(first, length, numbers[count])) return false;
        number = end;
    }
    range->ends = count > 1;
    if (!range->ends) range->high = range->low;
    if (!range->ends) range->low = -range->high;
    if (count < 3) range->mean = NAN;
    return range->low <= range->high;
}

static bool read_row(const Model *model, const char *text, RangeRow *row, Err *err) {
    RangeText range;
    if (!range_text_read(text, &range)) {
        err_set(err, ERR_USAGE, "range '%s' can't be read", text);
        err_expected(err, "NAME=MAX, MAX being a magnitude, NAME=MIN:MAX or NAME=MIN:MAX:MEAN");
        return false;
    }
    *row = (RangeRow){.name = sym_find(&model->syms, text, range.name_length),
                      .text = text,
                      .low = range.low,
                      .high = range.high,
                      .mean = range.mean};
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
            last->mean = NAN;
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
        if (!read_row(model, items->items[i], &table->rows[i], err)) return false;
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
        err_set(err, ERR_USAGE, "the model has no value '%s' to give a range of", name);
        if (nearest.best) err_hint(err, "did you mean '%s'?", nearest.best);
        return false;
    }
    return true;
}
