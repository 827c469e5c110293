// SPDX-License-Identifier: Apache-2.0
/* Measuring groups one by one; see sensitivity.h. Sets are gone through on the outside, so that the
 * values of one run are kept at a time, and each question replays what follows from its group. */
#include "sensitivity.h"

#include <string.h>

#include "qdq_plan.h"
#include "qdq_scale.h"
#include "replay.h"
#include "rounding.h"
#include "sym.h"

typedef struct Measuring {
    const Sensitivity *asked;
    Sensitivities *found;
    Arena *arena;
    uint32_t *numbers;       /* [value_count] of the model: the plan's number of what is changed */
    const GroupWork **works; /* [value_count]: a weight's first */
    size_t outputs;
    Replay *replay; /* of the present set */
    const TrialSet *set;
} Measuring;

/* ---- names ----------------------------------------------------------------------------------- */

/* The plan's numbers of groups' values, and of their weights where they are handed on. */
static void find_works(Measuring *m) {
    const MeasuredModel *model = m->asked->model;
    m->works = ARENA_ARRAY(m->arena, const GroupWork *, model->value_count);
    for (size_t i = model->groups.works.count; i-- > 0;) {
        const GroupWork *work = &model->groups.works.items[i];
        if (work->weights) m->works[work->weights->id] = work;
    }
}

static bool find_numbers(Measuring *m, Err *err) {
    const MeasuredModel *model = m->asked->model;
    SymTable table;
    uint32_t count;
    const char *const *names = replay_names(m->asked->trials->reference->plan, m->arena, &count);
    VEC(uint32_t) numbers = {0};
    sym_table_init(&table, m->arena);
    for (uint32_t i = 0; i < count; i++) {
        const Sym sym = names[i] ? sym_intern_cstr(&table, names[i]) : NULL;
        if (sym && sym->number == numbers.count) VEC_PUSH(m->arena, &numbers, i);
    }
    m->numbers = ARENA_ARRAY(m->arena, uint32_t, model->value_count);
    memset(m->numbers, 0xff, model->value_count * sizeof *m->numbers);
    for (uint32_t g = 0; g < model->groups.count; g++) {
        const Group *group = &model->groups.items[g];
        for (size_t i = 0; i < group->values.count + group->weights.count; i++) {
            const bool weights = i >= group->values.count;
            const Value *value =
                weights ? group->weights.items[i - group->values.count] : group->values.items[i];
            const char *name = weights ? model->handed_on[value->id] : value->name->text;
            const Sym sym = sym_find(&table, name, strlen(name));
            if (!sym)
                return err_set(err, ERR_MODEL, "value '%s' is not in the model's own plan", name);
            m->numbers[value->id] = numbers.items[sym->number];
        }
    }
    return true;
}

/* ---- one question ---------------------------------------------------------------------------- */

static ReplayChange change_to(Arena *arena, uint32_t number, const Rounding *rounding) {
    return (ReplayChange){.value = number,
                          .change = rounding_apply,
                          .user = arena_copy(arena, rounding, sizeof *rounding)};
}

/* As insert-qdq stores weights by name: a scale a channel, and of 4 bits a scale for as many of what is
 * summed, where that is one axis of two. */
static Rounding weights_rounding(const Measuring *m, const Value *weights, Dtype type,
                                 Arena *arena) {
    const Type *shape = value_shaped_type(weights);
    const GroupWork *work = m->works[weights->id];
    Rounding rounding = {.type = type, .outer = 1, .inner = 1};
    if (dtype_is_float(type) || !shape) return rounding;
    const OpRecord *record = op_record_find("", work->node->op_type->text);
    int32_t axis = qdq_weight_axis(work->node, record, weights);
    const bool blocks = dtype_bits(type) == 4 && shape->rank == 2;
    if (blocks) axis = 1 - axis;
    rounding.block = blocks ? QDQ_BLOCK : 0;
    for (int32_t i = 0; i < (int32_t)shape->rank; i++) {
        uint64_t *size = axis < 0 || i < axis ? &rounding.outer
                         : i == axis          ? &rounding.axis
                                              : &rounding.inner;
        *size = i == axis ? (uint64_t)shape->dims[i].size : *size * (uint64_t)shape->dims[i].size;
    }
    if (!rounding.axis) { /* one scale for all */
        rounding.axis = 1;
        rounding.inner = rounding.outer;
        rounding.outer = 1;
    }
    const QdqWeights sizes = {NULL,           rounding.outer, rounding.axis,
                              rounding.inner, rounding.block, type};
    rounding.scales = ARENA_ARRAY(arena, float, qdq_scale_count(&sizes) + 1);
    return rounding;
}

static size_t changes_of(const Measuring *m, const Group *group, const Candidate *candidate,
                         ReplayChange *changes, Arena *arena) {
    size_t count = 0;
    for (size_t i = 0; candidate->activations != DTYPE_FLOAT && i < group->values.count; i++) {
        const uint32_t id = group->values.items[i]->id;
        Rounding rounding = {.type = candidate->activations};
        if (m->asked->ends) {
            rounding.low = m->asked->ends[id].low;
            rounding.high = m->asked->ends[id].high;
        }
        changes[count++] = change_to(arena, m->numbers[id], &rounding);
    }
    for (size_t i = 0; candidate->weights != DTYPE_FLOAT && i < group->weights.count; i++) {
        const Rounding rounding =
            weights_rounding(m, group->weights.items[i], candidate->weights, arena);
        changes[count++] = change_to(arena, m->numbers[group->weights.items[i]->id], &rounding);
    }
    return count;
}

static void add_outputs(const Measuring *m, MetricSums *sums) {
    const DemiContext *context = m->asked->trials->reference->context;
    bool rows = false;
    for (size_t i = 0; i < m->outputs; i++) {
        const DemiData *have = demi_context_output(context, i), *want = &m->set->outputs[i];
        value_sums_add(&sums->outputs[i], want, have);
        if (!rows && want->kind == DEMI_DATA_TENSOR_KIND && want->dtype == DTYPE_FLOAT) {
            metric_add_rows(sums, want, have, m->asked->labels);
            rows = true;
        }
    }
}

static bool measure_one(Measuring *m, uint32_t g, size_t c, Err *err) {
    const Sensitivity *asked = m->asked;
    const Group *group = &asked->model->groups.items[g];
    Arena *within = arena_child(m->arena);
    ReplayChange *changes =
        ARENA_ARRAY(within, ReplayChange, group->values.count + group->weights.count);
    const size_t count = changes_of(m, group, asked->candidates[c], changes, within);
    const bool ok = replay_run(m->replay, changes, count, err);
    if (ok) {
        add_outputs(m, &m->found->sums[g * asked->candidate_count + c]);
        m->found->replays++;
        m->found->steps += replay_steps_run(m->replay);
        m->found->all_steps += replay_steps(m->replay);
    }
    arena_free(within);
    return ok;
}

/* ---- sets ------------------------------------------------------------------------------------ */

static bool is_asked(const Sensitivity *asked, uint32_t g, size_t c) {
    return g % asked->parts == asked->part && asked->wanted[g * asked->candidate_count + c];
}

static size_t count_questions(const Sensitivity *asked) {
    size_t count = 0;
    for (uint32_t g = 0; g < asked->model->groups.count; g++)
        for (size_t c = 0; c < asked->candidate_count; c++) count += is_asked(asked, g, c);
    return count;
}

/* The i-th of those that are asked for. */
static bool measure_set(Measuring *m, size_t i, Err *err) {
    const Sensitivity *asked = m->asked;
    const size_t set = i * asked->trials->count / asked->sets;
    Trials *trials = asked->trials;
    Arena *within = arena_child(m->arena);
    const size_t questions = count_questions(asked), total = questions * asked->sets;
    size_t done = questions * i;
    bool ok =
        trials_bind(trials, set, err) &&
        replay_record(trials->reference->context, asked->cache_bytes, within, &m->replay, err);
    m->set = &trials->sets[set];
    for (uint32_t g = 0; ok && g < asked->model->groups.count; g++)
        for (size_t c = 0; ok && c < asked->candidate_count; c++)
            if (is_asked(asked, g, c))
                ok = progress_tell(&trials->progress, "measuring groups", done++, total, err) &&
                     measure_one(m, g, c, err);
    arena_free(within);
    if (ok) trials_end_set(trials, set);
    return ok;
}

bool sensitivities_measure(const Sensitivity *asked, Sensitivities *found, Arena *arena, Err *err) {
    const size_t all = asked->model->groups.count * asked->candidate_count;
    Measuring m = {.asked = asked,
                   .found = found,
                   .arena = arena_child(arena),
                   .outputs = asked->trials->reference->output_count};
    *found = (Sensitivities){.sums = ARENA_ARRAY(arena, MetricSums, all)};
    for (size_t i = 0; i < all; i++)
        if (asked->wanted[i]) metric_begin(&found->sums[i], m.outputs, arena);
    find_works(&m);
    bool ok = find_numbers(&m, err);
    for (size_t set = 0; ok && set < asked->sets; set++) ok = measure_set(&m, set, err);
    arena_free(m.arena);
    return ok;
}
