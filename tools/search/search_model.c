// SPDX-License-Identifier: Apache-2.0
/* Opening a model for a search, and converting it by assignments; see search_model.h. */
#include "search_model.h"

#include <string.h>

#include "convert_target.h"
#include "demi_front.h"
#include "error_fill.h"
#include "model_source.h"
#include "node_exclude.h"
#include "node_pattern.h"
#include "qdq_plan.h"
#include "simplify_text.h"
#include "trial_fit.h"
#include "trial_moments.h"
#include "weight_storage.h"

/* ---- opening --------------------------------------------------------------------------------- */

/* Types and shapes as the converter has them, and nodes: what is folded there is no group here. The
 * opset stays. */
static bool make_exact(DemiModel *model, const DemiConvertOptions *convert, Arena *arena,
                       Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    PipelineText text = {.arena = arena};
    if (convert->simplify) simplify_put_exact(&text);
    pipeline_put_pass(&text, convert->fold ? "infer-dtypes,infer-shapes,fold-batch-norm{store=true}"
                                           : "infer-dtypes,infer-shapes");
    if (convert->equalize == DEMI_EQUALIZE_WEIGHTS || convert->channel_scale_count) {
        pipeline_put_pass(&text, "equalize");
        pipeline_put_list(&text, "scales", convert->channel_scales, convert->channel_scale_count);
        pipeline_end_pass(&text);
    }
    return error_take(err, demi_run_pipeline(model, pipeline_text(&text), NULL, NULL, &error),
                      &error);
}

/* Integers round what a convolution gives once, not before its normalization and behind it. */
static void choose_fold(SearchModel *m) {
    for (size_t i = 0; i < m->candidate_count; i++)
        if (m->candidates[i]->value_format) m->convert.fold = true;
}

typedef struct Opening {
    SearchModel *model;
    Arena *arena; /* of names; the measured model's own end with it */
} Opening;

/* A DemiOpenFn: the measured model. */
static DemiStatus open_measured(void *user, DemiModel **opened, DemiError *error) {
    SearchModel *m = user;
    Err err = {0};
    MemTrap trap;
    Arena scratch;
    DemiModel **volatile held = opened;
    *opened = NULL;
    if (setjmp(trap.env)) {
        err_out_of_memory(&err);
    } else {
        arena_init(&scratch, &trap);
        if (model_open(&m->source, held, &err) && make_exact(*held, &m->convert, &scratch, &err)) {
            MeasuredModel made;
            measured_model_make(&made, demi_front_lend(*held, &trap), &scratch);
        }
    }
    arena_free(&scratch);
    if (err.code == ERR_NONE) return DEMI_OK;
    demi_free(*held);
    *held = NULL;
    error_fill(error, (DemiStatus)err.code, &err);
    return (DemiStatus)err.code;
}

static bool find_half(SearchModel *m, Err *err) {
    m->half = DTYPE_UNDEFINED;
    for (size_t i = 0; i < m->candidate_count; i++) {
        const Dtype dtype = m->candidates[i]->activations;
        if (!dtype_is_reduced(dtype)) continue;
        if (m->half != DTYPE_UNDEFINED && m->half != dtype)
            return err_set(err, ERR_USAGE, "float16 and bfloat16 cannot both be candidates");
        m->half = dtype;
    }
    return true;
}

bool search_model_trials(SearchModel *m, const DemiInputOptions *inputs, size_t parts,
                         Trials *trials, Err *err) {
    *trials = (Trials){.arena = m->arena,
                       .how = m->how,
                       .source = m->trials.source,
                       .progress = m->trials.progress,
                       .parts = parts,
                       .share = m->trials.share,
                       .held = m->trials.held};
    trials->how.inputs = *inputs;
    inputs_copy(m->arena, &trials->how.inputs);
    return trials_open(trials, err);
}

/* A node that stays in float32 computes with floats, so that groups which it reads are not stored as anything else. */
static void find_kept(SearchModel *m, const char *const *excluded) {
    const Groups *groups = &m->measured.groups;
    m->kept = ARENA_ARRAY(m->arena, bool, groups->count + 1);
    for (uint32_t g = 0; g < groups->count; g++)
        for (size_t i = 0; i < groups->items[g].readers.count; i++)
            m->kept[g] = m->kept[g] || excluded[groups->items[g].readers.items[i]->id];
}

static PassStrings strings_of(const char *const *items, size_t count, Arena *arena) {
    return (PassStrings){arena_copy(arena, items, count * sizeof *items), count};
}

/* By --keep, --keep-ops and --only. */
static const char *const *find_excluded(const SearchModel *m, Model *model, Err *err) {
    const DemiConvertOptions *c = &m->convert;
    const NodePatterns patterns = {.keep = strings_of(c->keep, c->keep_count, m->arena),
                                   .keep_ops = strings_of(c->keep_ops, c->keep_op_count, m->arena),
                                   .only = strings_of(c->only, c->only_count, m->arena),
                                   .allow_unmatched = c->allow_unmatched};
    return node_exclusions(model, &patterns, m->arena, err);
}

bool search_model_open(SearchModel *m, MemTrap *trap, Err *err) {
    m->held = model_hold(m->arena);
    choose_fold(m);
    if (!find_half(m, err) || !model_open(&m->source, m->held, err) ||
        !make_exact(*m->held, &m->convert, m->arena, err))
        return false;
    Model *model = demi_front_lend(*m->held, trap);
    const char *const *excluded = find_excluded(m, model, err);
    if (!excluded) return false;
    measured_model_make(&m->measured, model, m->arena);
    m->measured.request = &m->told.request;
    find_kept(m, excluded);
    if (!m->quantize_outputs)
        groups_keep_outputs(&m->measured.groups, demi_front_lend(*m->held, trap));
    m->trials.arena = m->arena;
    m->trials.how = m->how;
    m->trials.source = m->source;
    m->trials.source.open = open_measured;
    m->trials.source.open_user = m;
    return trials_open(&m->trials, err) &&
           (!m->probe_inputs || search_model_trials(m, m->probe_inputs, 0, &m->probes, err));
}

const char *search_model_name(const SearchModel *m, uint32_t group) {
    return m->measured.groups.items[group].values.items[0]->name->text;
}

/* ---- converting ------------------------------------------------------------------------------ */

static const Candidate *candidate_of(const SearchModel *m, const uint8_t *assignment,
                                     uint32_t group) {
    const uint8_t number = assignment[group];
    return number == SEARCH_UNCONVERTED ? candidate_plain() : m->candidates[number];
}

static bool is_half(const SearchModel *m, const uint8_t *assignment, uint32_t group) {
    return candidate_of(m, assignment, group)->activations == m->half;
}

/* A node runs in 16 bit where all that it reads of groups has that type; what reads none, as a table's
 * rows, where what it makes has it. */
static bool runs_low(const SearchModel *m, const uint8_t *assignment, const Node *node) {
    const uint32_t *of = m->measured.groups.of_value;
    bool reads = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (!value || value->id >= m->measured.value_count || of[value->id] == GROUP_NONE) continue;
        if (!is_half(m, assignment, of[value->id])) return false;
        reads = true;
    }
    if (reads) return true;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (value && value->id < m->measured.value_count && of[value->id] != GROUP_NONE)
            return is_half(m, assignment, of[value->id]);
    }
    return false;
}

static void note_graph(Graph *graph, void *data) {
    bool *found = data;
    (void)graph;
    *found = true;
}

static void choose_low(const SearchModel *m, const uint8_t *assignment, DemiConvertOptions *options,
                       Arena *arena) {
    Words only = {0};
    const Model *model = demi_front_model(*m->held);
    const Graph *graph = model->graph;
    bool all = model->functions.count == 0, inner = false; /* nodes elsewhere have no group */
    for (const Node *node = graph->first; node; node = node->next) {
        const bool low = runs_low(m, assignment, node);
        if (low) VEC_PUSH(arena, &only, node_pattern_exact(node_label(node), arena));
        all = all && low;
        node_each_graph(node, note_graph, &inner);
    }
    options->to = (DemiTarget)convert_target_of(m->half);
    options->only = m->convert.only;
    options->only_count = m->convert.only_count;
    if (all && !inner) return;
    if (!only.count) VEC_PUSH(arena, &only, "name:"); /* nothing is called so */
    options->only = only.items;
    options->only_count = only.count;
    options->allow_unmatched = true;
}

/* Values that are quantized, with their ranges, and weights. */
typedef struct Quantized {
    Words values, weights, ranges;
    int64_t opset; /* that it takes */
} Quantized;

static void need_opset(Quantized *q, int64_t opset) {
    if (opset > q->opset) q->opset = opset;
}

static void quantize_group(const SearchModel *m, const Group *group, const Candidate *candidate,
                           Quantized *q, Arena *arena) {
    const bool values = candidate->value_format && !group->keeps_values;
    for (size_t i = 0; values && i < group->values.count; i++) {
        const Value *value = group->values.items[i];
        const GroupRange found = group_range(m->ranges, value->id, candidate->activations);
        DemiRange range = found.range ? *found.range : (DemiRange){.name = value->name->text};
        range.low = found.ends.low;
        range.high = found.ends.high;
        need_opset(q, qdq_opset_of(candidate->activations, false, false));
        VEC_PUSH(arena, &q->values,
                 arena_printf(arena, "%s=%s", value->name->text, candidate->value_format->word));
        VEC_PUSH(arena, &q->ranges, range_text(arena, &range, true));
    }
    for (size_t i = 0; i < group->weights.count; i++) {
        const Value *weights = group->weights.items[i];
        WeightStorage layout;
        weight_storage_find(&m->measured, weights, candidate, &layout);
        if (!layout.format) continue;
        need_opset(q, qdq_opset_of_weights(layout.format, DTYPE_FLOAT, true, layout.block));
        VEC_PUSH(arena, &q->weights,
                 arena_printf(arena, "%s=%s", weights->name->text, layout.format->word));
    }
}

DemiConvertOptions search_model_unconverted(const SearchModel *m, Arena *arena) {
    DemiConvertOptions options = m->convert;
    Words only = {0};
    VEC_PUSH(arena, &only, "name:"); /* nothing is called so */
    options.only = only.items;
    options.only_count = only.count;
    options.allow_unmatched = true;
    options.to = DEMI_TO_FLOAT16;
    return options;
}

DemiConvertOptions search_model_options(const SearchModel *m, const uint8_t *assignment,
                                        Arena *arena) {
    DemiConvertOptions options = search_model_unconverted(m, arena);
    Quantized q = {0};
    if (m->half != DTYPE_UNDEFINED) choose_low(m, assignment, &options, arena);
    for (uint32_t g = 0; g < m->measured.groups.count; g++)
        quantize_group(m, &m->measured.groups.items[g], candidate_of(m, assignment, g), &q, arena);
    if (q.values.count || q.weights.count) {
        if (m->half == DTYPE_UNDEFINED) options.to = DEMI_TO_INT8;
        const int64_t has = opset_version(&demi_front_model(*m->held)->opsets, NULL);
        const bool raised = options.opset == DEMI_OPSET_DEFAULT || options.opset == DEMI_OPSET_AUTO;
        if (raised && has < q.opset) options.opset = q.opset;
    }
    search_quantization_apply(&m->told.quantization, q.values.count, q.weights.count, &options);
    if (options.rounding == DEMI_ROUNDING_GPTQ && m->rounded) options.run = &m->run;
    options.values = q.values.items;
    options.value_count = q.values.count;
    options.weights = q.weights.items;
    options.weight_count = q.weights.count;
    Words ranges = {0};
    for (size_t i = 0; i < m->convert.range_count; i++)
        VEC_PUSH(arena, &ranges, m->convert.ranges[i]);
    for (size_t i = 0; i < q.ranges.count; i++) VEC_PUSH(arena, &ranges, q.ranges.items[i]);
    options.ranges = ranges.items;
    options.range_count = ranges.count;
    return options;
}

/* ---- rounding on data ------------------------------------------------------------------------ */

/* The candidate for all groups that may have it. */
static bool round_candidate(SearchModel *m, size_t c, const bool *allowed, Err *err) {
    const uint32_t groups = m->measured.groups.count;
    Arena *within = arena_child(m->arena);
    uint8_t *assignment = ARENA_ARRAY(within, uint8_t, groups + 1);
    for (uint32_t g = 0; g < groups; g++)
        assignment[g] = allowed[g * m->candidate_count + c] ? (uint8_t)c : SEARCH_UNCONVERTED;
    Trials *calibration = search_model_calibration(m), plain = *calibration;
    plain.source = m->source;
    DemiConvertOptions options = search_model_options(m, assignment, within);
    const bool ok = !options.weight_count || trials_round(&plain, &options, m->rounded, err);
    calibration->progress.cancelled |= plain.progress.cancelled;
    arena_free(within);
    return ok;
}

static void free_rounded(void *weights) {
    demi_rounded_free(weights);
}

bool search_model_round(SearchModel *m, const bool *allowed, MemTrap *trap, Err *err) {
    Arena arena;
    if (m->told.quantization.rounding != DEMI_ROUNDING_GPTQ) return true;
    arena_init(&arena, trap);
    m->rounded = ARENA_NEW(&arena, DemiRoundedWeights);
    m->rounded->arena = arena;
    arena_defer(m->arena, free_rounded, m->rounded);
    m->rounded->rounding.arena = &m->rounded->arena;
    m->run = (DemiRunOptions)DEMI_RUN_OPTIONS_INIT;
    m->run.rounded = m->rounded;
    for (size_t c = 0; c < m->candidate_count; c++)
        if (m->candidates[c]->weight_format && !round_candidate(m, c, allowed, err)) return false;
    return true;
}

/* ---- sources --------------------------------------------------------------------------------- */

typedef struct Converting {
    SearchModel *model;
    const DemiConvertOptions *options;
} Converting;

static DemiStatus open_converted(void *user, DemiModel **opened, DemiError *error) {
    const Converting *c = user;
    const DemiSource *source = &c->model->source;
    *opened = NULL;
    DemiStatus status = source->open ? source->open(source->open_user, opened, error)
                                     : demi_load_file(source->path, source->load, opened, error);
    if (status == DEMI_OK) status = demi_convert(*opened, c->options, NULL, error);
    if (status == DEMI_OK) return DEMI_OK;
    demi_free(*opened);
    *opened = NULL;
    return status;
}

DemiSource search_model_source(SearchModel *m, const DemiConvertOptions *options, Arena *arena) {
    DemiSource source = m->source;
    Converting *converting = ARENA_NEW(arena, Converting);
    *converting = (Converting){m, options};
    source.open = open_converted;
    source.open_user = converting;
    return source;
}
