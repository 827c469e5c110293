// SPDX-License-Identifier: Apache-2.0
/* One look at every constant; see weight_note.h. */
#include "weight_note.h"

#include "node_note.h"

enum { NAMED = 3, SHARE = 25 }; /* constants that are named; 1/SHARE of the bytes may stay */

typedef struct Weights {
    uint64_t all, stay; /* elements */
    size_t count;       /* of constants that stay */
    const Value *largest[NAMED];
} Weights;

static bool is_weight(const Placement *p, const Value *value) {
    return value && value->uses && (p->constant[value->id] || (value->input && value->init));
}

static void take(Weights *w, const Value *value) {
    uint64_t count = placement_elements(value);
    w->stay += count;
    w->count++;
    for (size_t i = 0; i < NAMED; i++) {
        if (w->largest[i] && placement_elements(w->largest[i]) >= count) continue;
        for (size_t k = NAMED - 1; k > i; k--) w->largest[k] = w->largest[k - 1];
        w->largest[i] = value;
        return;
    }
}

/* Of the reader that keeps it: one that a 16-bit reader stands beside is not asked. */
static const char *why(Placement *p, const Value *value) {
    Arena *arena = &p->model->arena;
    if (value->trained) return "training updates it";
    if (value->input)
        return "it is the default value of an input, which --freeze-inputs makes constant";
    if (p->guarded && p->guarded[value->id]) return p->guarded[value->id];
    for (const Use *use = value->uses; use; use = use->next) {
        if (!use->node || !use->node->note || use->node->note->dtype != DTYPE_FLOAT) continue;
        return arena_printf(arena, "%s %s", node_label(use->node),
                            node_note_text(use->node->note, arena));
    }
    return "an output, or read in its own type";
}

static const char *size_text(const Value *value, Arena *arena) {
    double bytes = 4 * (double)placement_elements(value);
    if (bytes >= 1e6) return arena_printf(arena, "%.3g MB", bytes / 1e6);
    return arena_printf(arena, "%.3g kB", bytes / 1e3);
}

void weight_note(Placement *p, PassCounts *counts) {
    Weights w = {0};
    Arena *arena = &p->model->arena;
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = placement_value(p, id);
        if (!is_weight(p, value)) continue;
        Dtype dtype = type_dtype(value->type);
        if (dtype != DTYPE_FLOAT && dtype != p->request.target) continue;
        w.all += placement_elements(value);
        if (dtype == DTYPE_FLOAT) take(&w, value);
    }
    if (w.stay <= w.all / SHARE) return;
    const char *text = arena_printf(
        arena,
        "floating-point weights take %.2f of their original size, because %s are kept in float32:",
        (double)(w.all + w.stay) / (2 * (double)w.all), w.stay == w.all ? "they" : "some");
    size_t named = 0;
    while (named < NAMED && w.largest[named] &&
           placement_elements(w.largest[named]) > w.stay / SHARE) {
        const Value *value = w.largest[named];
        text = arena_printf(arena, "%s%s '%s' (%s), %s", text, named ? ";" : "",
                            sym_text(value->name), size_text(value, arena), why(p, value));
        named++;
    }
    if (w.count > named)
        text = arena_printf(arena, named ? "%s; and %llu smaller" : "%s %llu small ones", text,
                            (unsigned long long)(w.count - named));
    pass_remark(counts, arena, text);
}
