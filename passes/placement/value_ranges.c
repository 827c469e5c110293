// SPDX-License-Identifier: Apache-2.0
/* Pins what measured ranges forbid; see value_ranges.h. One look at every value. */
#include "value_ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text_distance.h"
#include "text_words.h"

/* Largest finite numbers: (2 - 2^-10) * 2^15 and (2 - 2^-7) * 2^127. */
static const double LARGEST_FLOAT16 = 65504, LARGEST_BFLOAT16 = 0x1.FEp127;

typedef struct Range {
    Sym name; /* NULL where the model has no such name */
    const char *text;
    double reached;
    bool matched;
} Range;

static bool read_range(const Placement *p, const char *text, Range *range, Err *err) {
    const char *split = strrchr(text, '=');
    *range = (Range){.text = text};
    bool ok =
        split && split > text && text_read_double(split + 1, strlen(split + 1), &range->reached);
    if (!ok || isnan(range->reached) || range->reached < 0) {
        err_set(err, ERR_USAGE, "range '%s' can't be read", text);
        err_expected(err, "NAME=MAX, MAX being a magnitude");
        return false;
    }
    range->name = sym_find(&p->model->syms, text, (size_t)(split - text));
    return true;
}

/* By the name's place in memory: equal names are one. Order shows nowhere. */
static int by_name(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const Range *)a)->name, y = (uintptr_t)((const Range *)b)->name;
    return (x > y) - (x < y);
}

/* A value may be given a range twice, by a policy and an option, say: the larger one counts. */
static size_t join_equal(Range *table, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!kept || !table[i].name || table[i].name != table[kept - 1].name)
            table[kept++] = table[i];
        else if (table[i].reached > table[kept - 1].reached)
            table[kept - 1].reached = table[i].reached;
    }
    return kept;
}

static Range *find(Range *ranges, size_t count, Sym name) {
    Range wanted = {.name = name};
    return count && name ? bsearch(&wanted, ranges, count, sizeof wanted, by_name) : NULL;
}

static void pin(Placement *p, const Value *value, const Range *range) {
    const char *reason =
        arena_printf(&p->model->arena, "'%s' reached %.6g, near the end of %s's range",
                     sym_text(value->name), range->reached, dtype_name(p->request.target));
    placement_pin(p, p->value_vars[value->id], NOTE_VALUE, reason);
    for (const Use *use = value->uses; use; use = use->next)
        placement_pin(p, placement_use_var(p, use), NOTE_VALUE, reason);
}

static bool refuse_unmatched(const Placement *p, const Range *range, Err *err) {
    size_t length = (size_t)(strrchr(range->text, '=') - range->text);
    const char *name = arena_copy(p->scratch, range->text, length);
    NearestName nearest = nearest_name_of(name);
    for (uint32_t id = 0; id < p->value_count; id++)
        if (p->values[id]) nearest_name_try(&nearest, sym_text(p->values[id]->name));
    err_set(err, ERR_USAGE, "the model has no value '%s' to give a range of", name);
    if (nearest.best) err_hint(err, "did you mean '%s'?", nearest.best);
    return false;
}

bool value_ranges_pin(Placement *p, const ValueRanges *ranges, Err *err) {
    size_t count = ranges->items.count;
    Range *table = ARENA_ARRAY(p->scratch, Range, count);
    double most = p->request.target == DTYPE_FLOAT16 ? LARGEST_FLOAT16 : LARGEST_BFLOAT16;
    for (size_t i = 0; i < count; i++)
        if (!read_range(p, ranges->items.items[i], &table[i], err)) return false;
    if (count) qsort(table, count, sizeof *table, by_name);
    count = join_equal(table, count);
    for (uint32_t id = 0; count && id < p->value_count; id++) {
        const Value *value = p->values[id];
        Range *range = value ? find(table, count, value->name) : NULL;
        if (!range) continue;
        range->matched = true;
        if (range->reached * (double)ranges->margin > most) pin(p, value, range);
    }
    for (size_t i = 0; i < count && !ranges->allow_unmatched; i++)
        if (!table[i].matched) return refuse_unmatched(p, &table[i], err);
    return true;
}
