// SPDX-License-Identifier: Apache-2.0
/* Calibrating once; see group_ranges.h. */
#include "group_ranges.h"

#include <math.h>
#include <string.h>

#include "range_table.h"
#include "sym.h"

enum { NARROW, WIDE, WIDTHS };

/* By the values' numbers what lists have by name. */
static GroupRange *by_number(const Groups *groups, uint32_t value_count, const RangeList *list,
                             Arena *arena) {
    GroupRange *found = ARENA_ARRAY(arena, GroupRange, value_count + 1);
    Arena *within = arena_child(arena);
    SymTable names;
    VEC(GroupRange) items = {0}; /* by name */
    sym_table_init(&names, within);
    for (size_t i = 0; i < list->count; i++) {
        const DemiRange *range = &list->items[i];
        if (sym_intern_cstr(&names, range->name)->number == items.count)
            VEC_PUSH(within, &items, ((GroupRange){{range->low, range->high}, range}));
    }
    for (uint32_t v = 0; v < value_count; v++) found[v] = (GroupRange){VALUE_NO_RANGE, NULL};
    for (uint32_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < groups->items[g].values.count; i++) {
            const Value *value = groups->items[g].values.items[i];
            const Sym sym = sym_find(&names, value->name->text, value->name->length);
            if (sym) found[value->id] = items.items[sym->number];
        }
    arena_free(within);
    return found;
}

/* What the caller says of a value holds instead of what was measured. */
static void take_given(const Groups *groups, const char *text, GroupRanges *found, Arena *arena) {
    RangeText given;
    if (!range_text_read(text, &given)) return; /* conversions refuse it */
    for (uint32_t v = 0; v < groups->value_count; v++) {
        const GroupRange *measured = &found->narrow[v];
        const char *name = measured->range ? measured->range->name : "";
        if (strlen(name) != given.name_length || memcmp(name, text, given.name_length) != 0)
            continue;
        DemiRange *range = ARENA_NEW(arena, DemiRange);
        *range = (DemiRange){.name = name, .low = given.low, .high = given.high};
        found->narrow[v] = found->wide[v] = (GroupRange){{given.low, given.high}, range};
    }
}

bool group_ranges_measure(const MeasuredModel *model, Trials *trials, GroupRanges *found,
                          const DemiConvertOptions *given, Arena *arena, Err *err) {
    static const uint32_t levels[WIDTHS] = {[NARROW] = 1 << 8, [WIDE] = 1 << 16};
    const Groups *groups = &model->groups;
    Arena *within = arena_child(arena);
    RangeList lists[WIDTHS] = {{0}};
    Words wanted = {0};
    DemiCalibrateOptions options = DEMI_CALIBRATE_OPTIONS_INIT;
    options.ends = true;
    options.method = DEMI_CALIBRATION_MSE;
    options.symmetric = model->request->symmetric;
    for (uint32_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < groups->items[g].values.count; i++)
            VEC_PUSH(within, &wanted, groups->items[g].values.items[i]->name->text);
    const RangeWidths widths = {&wanted, levels, WIDTHS};
    const bool ok = trials_ranges_of(trials, &options, &widths, arena, lists, err);
    found->narrow = by_number(groups, model->value_count, &lists[NARROW], arena);
    found->wide = by_number(groups, model->value_count, &lists[WIDE], arena);
    for (size_t i = 0; ok && i < given->range_count; i++)
        take_given(groups, given->ranges[i], found, arena);
    arena_free(within);
    return ok;
}
