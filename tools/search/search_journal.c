// SPDX-License-Identifier: Apache-2.0
/* What a search's journal belongs to; see search_job.h. */
#include <string.h>

#include "error_fill.h"
#include "hash64.h"
#include "kernel.h"
#include "search_job.h"
#include "value_io.h"

static const char *hex(const SearchJob *job, uint64_t hash) {
    return arena_printf(job->arena, "%016llx", (unsigned long long)hash);
}

static const char *text_hash(const SearchJob *job, const char *text) {
    return text ? hex(job, hash64_bytes(text, strlen(text), 0)) : "none";
}

/* Of what the model runs on: names, types, shapes and elements. */
static uint64_t hash_values(const DemiData *values, size_t count) {
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        const DemiData *value = &values[i];
        const int64_t head[] = {value->kind, value->dtype, value->rank, (int64_t)value->count};
        hash = hash64_bytes(head, sizeof head, hash);
        if (value->kind == DEMI_DATA_SEQUENCE_KIND) hash ^= hash_values(value->items, value->count);
        if (value->kind != DEMI_DATA_TENSOR_KIND || value->dtype == DEMI_STRING) continue;
        hash = hash64_bytes(value->dims, value->rank * sizeof *value->dims, hash);
        hash = hash64_bytes(value->data,
                            value_count(value) * kernel_element_size((Dtype)value->dtype), hash);
    }
    return hash;
}

/* Two of each set: of its inputs and its outputs. */
static bool hash_mine(Trials *trials, uint64_t *hashes, Err *err) {
    for (size_t k = 0; k < trials_mine(trials); k++) {
        const size_t i = trials_place(trials, k);
        const TrialSet *set = &trials->sets[i];
        if (!trials_bind(trials, i, err)) return false;
        hashes[2 * i] = hash_values(set->values, trials->reference->input_count);
        hashes[2 * i + 1] = hash_values(set->outputs, trials->reference->output_count);
        trials_end_set(trials, i);
    }
    return true;
}

/* Weights count by the outputs that they give. */
static bool hash_sets(Trials *trials, uint64_t *hash, Err *err) {
    Arena *within = arena_child(trials->arena);
    uint64_t *hashes = ARENA_ARRAY(within, uint64_t, 2 * trials->count + 1);
    const bool ok = hash_mine(trials, hashes, err) &&
                    share_words(&trials->share, hashes, 2 * trials->count, err);
    *hash = *hash * 31 + trials->count;
    for (size_t i = 0; i < 2 * trials->count; i++) *hash = *hash * 31 + hashes[i];
    arena_free(within);
    return ok;
}

static bool hash_data(SearchJob *job, uint64_t *hash, Err *err) {
    *hash = 0;
    for (uint32_t g = 0; g < search_groups(job)->count; g++) {
        const char *name = search_model_name(&job->model, g);
        *hash = hash64_bytes(name, strlen(name), *hash);
    }
    SearchModel *m = &job->model;
    if (!hash_sets(&m->calibration, hash, err)) return false;
    trials_forget(&m->calibration);
    if (!hash_sets(&m->holdout, hash, err)) return false;
    trials_forget(&m->holdout);
    return hash_sets(&m->trials, hash, err) &&
           (!m->probe_inputs || hash_sets(&m->probes, hash, err));
}

static uint64_t hash_labels(const DemiSearchOptions *o) {
    const uint64_t hash = hash64_bytes(o->labels, o->label_count * sizeof *o->labels, 0);
    return hash64_bytes(o->holdout_labels, o->holdout_label_count * sizeof *o->labels, hash);
}

/* A caller's score is what he calls it. */
static const char *score_name(const SearchJob *job, const char *name) {
    return name ? arena_printf(job->arena, "score: %s", name) : "score";
}

static const char *sensitivity_name(const SearchJob *job) {
    const DemiSearchOptions *o = &job->options;
    switch (o->sensitivity) {
    case DEMI_SENSITIVITY_MEASURED: return "measured";
    case DEMI_SENSITIVITY_GRADIENT: return "gradient";
    case DEMI_SENSITIVITY_SCORE: break;
    }
    return score_name(job, o->sensitivity_score ? o->sensitivity_name : o->score_name);
}

/* What conversions are told beside candidates. */
static const char *policy_hash(const SearchJob *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    const SearchQuantization *q = &job->model.told.quantization;
    const size_t size = demi_convert_policy(&job->model.convert, NULL, 0, &error);
    if (!error_take(err, error.status, &error)) return NULL;
    char *policy = arena_alloc(job->arena, size + 1);
    demi_convert_policy(&job->model.convert, policy, size + 1, NULL);
    return text_hash(job, arena_printf(job->arena, "%s symmetric=%d block=%lld", policy,
                                       q->symmetric, (long long)q->block));
}

/* With types: a short name stands for that of a runtime. */
static const char *candidate_names(const SearchJob *job) {
    const char *names = "";
    for (size_t i = 0; i < job->model.candidate_count; i++) {
        const Candidate *c = job->model.candidates[i];
        names = arena_printf(job->arena, "%s%s%s", names, i ? "," : "", c->name);
        if (c->value_format)
            names = arena_printf(job->arena, "%s(%s)", names, c->value_format->word);
    }
    return names;
}

/* What differs where the journal's numbers would: neither the target nor the cost, nor the algorithm. */
bool search_open_journal(SearchJob *job, Err *err) {
    const DemiSearchOptions *o = &job->options;
    uint64_t data = 0;
    if (!o->journal) return true;
    const char *policy = policy_hash(job, err);
    if (!policy || !hash_data(job, &data, err)) return false;
    if (o->part) return true;
    const JournalField fields[] = {
        {"demi", DEMI_VERSION_STRING},
        {"acceptance", search_acceptance_name(job)},
        {"model and data", hex(job, data)},
        {"runtime", arena_printf(job->arena, "%d", (int)job->model.told.quantization.runtime)},
        {"candidates", candidate_names(job)},
        {"metric",
         o->metric == DEMI_METRIC_SCORE ? score_name(job, o->score_name) : metric_name(o->metric)},
        {"labels", hex(job, hash_labels(o))},
        {"outputs", o->quantize_outputs ? "integers" : "float"},
        {"sensitivity", sensitivity_name(job)},
        {"probes", arena_printf(job->arena, "%zu", o->probes)},
        {"policy", policy},
        {"calibration", "mse"},
        {"supported", o->all_candidates ? "none" : text_hash(job, o->supported)}};
    job->journal =
        journal_open(o->journal, fields, sizeof fields / sizeof *fields, job->arena, err);
    return job->journal;
}
