// SPDX-License-Identifier: Apache-2.0
/* Pins what measured ranges forbid; see value_ranges.h. One look at every value. */
#include "value_ranges.h"

#include <math.h>

#include "range_table.h"

/* Largest finite numbers: (2 - 2^-10) * 2^15 and (2 - 2^-7) * 2^127. */

static double magnitude(const RangeRow *range) {
    return fmax(fabs(range->low), fabs(range->high));
}

static void pin(Placement *p, const Value *value, const RangeRow *range) {
    const char *reason =
        arena_printf(&p->model->arena, "'%s' reached %.6g, near the limit of %s's range",
                     sym_text(value->name), magnitude(range), dtype_name(p->request.target));
    placement_pin(p, p->value_vars[value->id], NOTE_VALUE, reason);
    for (const Use *use = value->uses; use; use = use->next)
        placement_pin(p, placement_use_var(p, use), NOTE_VALUE, reason);
}

bool value_ranges_pin(Placement *p, const ValueRanges *ranges, Err *err) {
    RangeTable table;
    const double most = dtype_largest(p->request.target);
    if (!range_table_read(p->model, &ranges->items, p->scratch, &table, err)) return false;
    for (uint32_t id = 0; table.count && id < p->value_count; id++) {
        const Value *value = p->values[id];
        RangeRow *range = value ? range_table_find(&table, value->name) : NULL;
        if (!range) continue;
        range->matched = true;
        if (magnitude(range) * (double)ranges->margin > most) pin(p, value, range);
    }
    return ranges->allow_unmatched || range_table_check(&table, p->model, p->scratch, err);
}
