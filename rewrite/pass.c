// SPDX-License-Identifier: Apache-2.0
/* Checking and running pipelines. Their text form is pipeline_text.c. */
#define _POSIX_C_SOURCE 200809L
#include "pass.h"

#include <string.h>
#include <time.h>

#include "mentions.h"
#include "work_progress.h"
#include "verify.h"

static bool is_name(const char *candidate, const char *name, size_t length) {
    return strlen(candidate) == length && memcmp(candidate, name, length) == 0;
}

static const PassInfo *find_by_name(const PassTable *table, const char *name, size_t length) {
    for (size_t i = 0; i < table->count; i++)
        if (is_name(table->passes[i]->name, name, length)) return table->passes[i];
    return NULL;
}

const PassInfo *pass_find(const PassTable *table, const char *name, size_t length) {
    const PassInfo *found = find_by_name(table, name, length);
    for (size_t i = 0; !found && i < table->former_count; i++) {
        const FormerName *row = &table->former[i];
        if (is_name(row->former, name, length))
            found = find_by_name(table, row->name, strlen(row->name));
    }
    return found;
}

void pass_note_loss(PassCounts *counts, Arena *arena, TensorLoss loss) {
    TensorLoss *copy = ARENA_NEW(arena, TensorLoss);
    *copy = loss;
    copy->next = NULL;
    if (counts->last_loss)
        counts->last_loss->next = copy;
    else
        counts->losses = copy;
    counts->last_loss = copy;
}

void pass_remark(PassCounts *counts, Arena *arena, const char *text) {
    PassRemark *remark = ARENA_NEW(arena, PassRemark);
    *remark = (PassRemark){.next = counts->remarks, .text = text};
    counts->remarks = remark;
}

static const char *fact_name(uint32_t facts) {
    return facts & FACT_DTYPES ? "dtypes" : "shapes";
}

static const char *fact_giver(uint32_t facts) {
    return facts & FACT_DTYPES ? "infer-dtypes" : "infer-shapes";
}

bool pipeline_check(const Pipeline *pipeline, Err *err) {
    uint32_t given = 0, broken = 0;
    for (size_t i = 0; i < pipeline->steps.count; i++) {
        const PassInfo *pass = pipeline->steps.items[i].info;
        uint32_t missing = pass->needs & ~given;
        if (missing) {
            err_set(err, ERR_USAGE, "pass '%s' needs %s, which %s", pass->name, fact_name(missing),
                    missing & broken ? "an earlier pass has invalidated"
                                     : "no earlier pass provides");
            err_hint(err, "put %s before it", fact_giver(missing));
            return false;
        }
        broken = (broken | (given & pass->breaks)) & ~pass->gives;
        given = (given & ~pass->breaks) | pass->gives;
    }
    return true;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool is_valid_behind(const PassStep *step, PassCtx *ctx, const PipelineOptions *options,
                            Err *err) {
    const bool whole = options->check && (options->verify_each || step->info->foreign);
    if (whole ? options->check(ctx->model, ctx->scratch, err)
              : !options->verify_each || model_verify(ctx->model, ctx->scratch, err))
        return true;
    err_hint(err, "pass '%s' left the model invalid%s", step->info->name,
             step->info->foreign ? "" : "; please report this");
    return false;
}

static bool step_run(const PassStep *step, PassCtx *ctx, const PipelineOptions *options, Err *err) {
    double start = seconds_now();
    ctx->counts->rewrites = 0;
    ctx->pass = step->info;
    uint64_t edits = ctx->model->edits;
    const bool ran = step->info->run(ctx, step->options, err);
    if (ctx->model->batch) model_sweep(ctx->model, ctx->scratch);
    if (!ran) return false;
    if (ctx->model->mentions && ctx->model->edits != edits) mentions_sync(ctx->model, ctx->scratch);
    arena_free(ctx->scratch);
    double seconds = seconds_now() - start;
    if (!is_valid_behind(step, ctx, options, err)) return false;
    arena_free(ctx->scratch);
    if (options->after) options->after(options->data, step, ctx->counts, seconds);
    return true;
}

bool pipeline_run(const Pipeline *pipeline, PassCtx *ctx, const PipelineOptions *options,
                  Err *err) {
    if (!pipeline_check(pipeline, err)) return false;
    bool ok = true;
    ctx->facts = 0;
    const unsigned piece = progress_begin("", pipeline->steps.count, PROGRESS_PARTS);
    for (size_t i = 0; ok && i < pipeline->steps.count; i++) {
        const PassInfo *pass = pipeline->steps.items[i].info;
        progress_turn(piece, pass->name, i, pipeline->steps.count);
        ok = step_run(&pipeline->steps.items[i], ctx, options, err);
        ctx->facts = (ctx->facts & ~pass->breaks) | pass->gives;
    }
    progress_end(piece);
    arena_free(ctx->scratch);
    return ok;
}
