// SPDX-License-Identifier: Apache-2.0
/* demi check of a plan; see check_plan.h. Three things are compared, each more than the one before:
 * the hash of all the plan's bytes with the one that was written with them; the hash of the model's
 * file with the one in the plan; and, with --full, all bytes with those of a plan compiled now, with
 * the same choices where it is tuned. */
#define _POSIX_C_SOURCE 200809L
#include "check_plan.h"

#include <stdio.h>
#include <string.h>

#include "demi_runtime.h"
#include "demi_tune.h"
#include "exec.h"
#include "input_use.h"
#include "plan.h"
#include "source.h"

typedef struct Again {
    Source *source; /* the plan's file */
    uint64_t at;
    bool differs;
    Err *err;
    char bytes[1 << 16];
} Again;

static bool compare_piece(void *user, const void *bytes, size_t size) {
    Again *again = user;
    for (size_t done = 0; done < size && !again->differs;) {
        size_t count = size - done < sizeof again->bytes ? size - done : sizeof again->bytes;
        bool there = again->source->size - again->at >= count;
        if (there && !source_read(again->source, again->at, again->bytes, count, again->err))
            return false;
        again->differs = !there || memcmp(again->bytes, (const char *)bytes + done, count) != 0;
        again->at += count;
        done += count;
    }
    return true;
}

static bool read_options(Source *source, DemiCompileOptions *options, Err *err) {
    static const DemiIsa isas[PLAN_ISA_COUNT] = {[PLAN_ISA_NONE] = DEMI_ISA_NONE,
                                                 [PLAN_ISA_PORTABLE] = DEMI_ISA_PORTABLE,
                                                 [PLAN_ISA_AVX2] = DEMI_ISA_AVX2,
                                                 [PLAN_ISA_AVX512] = DEMI_ISA_AVX512};
    PlanHeader header;
    if (!source_read(source, 0, (char *)&header, sizeof header, err)) return false;
    bool faithful = header.numerics == PLAN_FAITHFUL;
    options->numerics = faithful ? DEMI_NUMERICS_FAITHFUL : DEMI_NUMERICS_FAST;
    options->small = header.small;
    options->isa = isas[header.isa < PLAN_ISA_COUNT ? header.isa : PLAN_ISA_NONE];
    return true;
}

static bool write_file(void *user, const void *bytes, size_t size) {
    return fwrite(bytes, 1, size, user) == size;
}

/* The model, compiled and with the plan's choices: a tuned plan is made of one that is not. */
static bool compare_tuned(DemiModel *model, const DemiCompileOptions *options, const DemiPlan *plan,
                          Again *again) {
    DemiError error = DEMI_ERROR_INIT;
    DemiPlan *plain = NULL;
    char path[64];
    FILE *file = tmpfile();
    if (!file) return err_set(again->err, ERR_ENV, "there is no space for a temporary file");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    DemiStatus status = demi_compile(model, options, write_file, file, &error);
    if (status == DEMI_OK && fflush(file) != 0)
        err_set(again->err, ERR_ENV, "cannot write a temporary file");
    if (status == DEMI_OK) status = demi_plan_load(path, &plain, &error);
    if (status == DEMI_OK)
        status = demi_plan_write_chosen(plain, plan, compare_piece, again, &error);
    demi_plan_free(plain);
    fclose(file);
    return again->err->code == ERR_NONE && error_take(again->err, status, &error);
}

/* Compiles the model as the plan was, and compares. */
static bool compile_again(Program *program, const Parsed *parsed, const DemiPlan *plan,
                          const char *path, Err *err) {
    const char *against = parsed_value(parsed, "against");
    DemiError error = DEMI_ERROR_INIT;
    DemiCompileOptions options = DEMI_COMPILE_OPTIONS_INIT;
    DemiModel *model = NULL;
    Again *again = ARENA_NEW(program->arena, Again);
    again->err = err;
    again->source = source_open(program->arena, path, INT32_MAX, err);
    if (!again->source || !read_options(again->source, &options, err) ||
        !console_load(program, parsed, against, &model, err))
        return false;
    const bool is_tuned = demi_plan_loaded(plan)->plan.choice_count > 0;
    const bool ok =
        is_tuned
            ? compare_tuned(model, &options, plan, again)
            : error_take(err, demi_compile(model, &options, compare_piece, again, &error), &error);
    demi_free(model);
    if (err->code != ERR_NONE || !ok) return false;
    if (!again->differs && again->at == again->source->size) return true;
    err_set(err, ERR_MODEL, "'%s' compiles to a different plan", against);
    err_hint(err, "compile it again");
    return false;
}

static bool check_source(Program *program, const DemiPlan *plan, const char *against, Err *err) {
    uint64_t made_of[2] = {0}, hash[2] = {0};
    demi_plan_source(plan, made_of);
    Source *source = source_open(program->arena, against, INT32_MAX, err);
    if (!source || !source_hash(source, program->arena, hash, err)) return false;
    if (memcmp(hash, made_of, sizeof hash) == 0) return true;
    err_set(err, ERR_MODEL, "the plan was not compiled from the current contents of '%s'", against);
    err_hint(err, "compile it again");
    return false;
}

bool check_plan(Program *program, const Parsed *parsed, const char *path, Err *err) {
    DemiPlan *plan = NULL;
    DemiError error = DEMI_ERROR_INIT;
    const char *against = parsed_value(parsed, "against");
    bool full = parsed_flag(parsed, "full");
    if (full && !against) {
        err_set(err, ERR_USAGE, "there is nothing to compare with");
        err_hint(err, "--full requires --against MODEL");
        return false;
    }
    bool ok = error_take(err, demi_plan_load(path, &plan, &error), &error) &&
              error_take(err, demi_plan_verify(plan, &error), &error) &&
              (!against || check_source(program, plan, against, err));
    ok = ok && (!full || compile_again(program, parsed, plan, path, err));
    demi_plan_free(plan);
    return ok;
}
