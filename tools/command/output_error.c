// SPDX-License-Identifier: Apache-2.0
/* Holding outputs against outputs; see output_error.h. */
#include "output_error.h"

#include <string.h>
#include <sys/stat.h>

#include "dtype.h"
#include "value_io.h"

static const double limit_float = 1e-4, limit_low = 0.02;
/* Below its smallest normal number, 2^-14, float16 has no precision to speak of. */
static const double least_float = 1e-7, least_low = 6.2e-5;

bool limit_find(const Parsed *parsed, bool low, Limit *limit, Err *err) {
    return session_real(parsed, "max-error", &limit->error, low ? limit_low : limit_float, err) &&
           session_real(parsed, "atol", &limit->least, low ? least_low : least_float, err);
}

bool limit_beyond(const Limit *limit, const ValueDiff *diff) {
    return diff->mismatch || diff->special ||
           (diff->error > limit->error && diff->max_abs > limit->least);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static bool is_there(const char *path) {
    struct stat status;
    return stat(path, &status) == 0;
}

static bool read_output(Arena *arena, const char *folder, const DemiPlanIo *io, size_t i,
                        DemiData *value, bool *found, Err *err) {
    const char *name = value_file_name(arena, io->name);
    const char *npy = arena_printf(arena, "%s/%s.npy", folder, name);
    const char *pb = arena_printf(arena, "%s/output_%zu.pb", folder, i);
    *found = is_there(npy) || is_there(pb);
    return !*found || value_read_file(arena, is_there(npy) ? npy : pb, io, value, err);
}

static const DemiData *find_output(const OutputReference *reference, const Session *b, size_t i) {
    const Session *a = reference->session;
    size_t k = 0;
    while (k < a->output_count && strcmp(a->outputs[k].name, b->outputs[i].name) != 0) k++;
    if (k == a->output_count && a->output_count == b->output_count) k = i;
    if (k == a->output_count) return NULL;
    return reference->values ? &reference->values[k] : demi_context_output(a->context, k);
}

bool output_errors(Arena *arena, const OutputReference *reference, const Session *session,
                   OutputErrors *rows, Err *err) {
    static const Tolerance any_float = {.any_float = true};
    size_t before = rows->count;
    for (size_t i = 0; i < session->output_count; i++) {
        const DemiPlanIo *io = &session->outputs[i];
        DemiData value;
        const DemiData *want =
            reference->session ? find_output(reference, session, i) : &value;
        bool found = want != NULL;
        OutputError row = {.output = io->name};
        if (!reference->session && !read_output(arena, reference->name, io, i, &value, &found, err))
            return false;
        if (!found) continue;
        value_compare(arena, demi_context_output(session->context, i), want, &any_float, &row.diff);
        VEC_PUSH(arena, rows, row);
    }
    if (rows->count > before || !session->output_count) return true;
    err_set(err, ERR_USAGE, "it has no output that '%s' has too", session->path);
    err_file(err, reference->name);
    if (!reference->session)
        err_hint(err,
                 "a folder holds output_0.pb, ... or NAME.npy, as 'demi run --output-dir' writes "
                 "them");
    return false;
}

bool output_error_is_worse(const ValueDiff *a, const ValueDiff *b) {
    if (!a->mismatch != !b->mismatch) return a->mismatch;
    if (!a->special != !b->special) return a->special;
    return a->error > b->error;
}

/* ---- saying it ------------------------------------------------------------------------------- */

const char *output_error_text(Arena *arena, const ValueDiff *diff) {
    if (diff->mismatch) return diff->mismatch;
    if (diff->special)
        return arena_printf(arena,
                            "%llu of %llu elements are NaN or infinite in one of both: %.6g, "
                            "expected %.6g",
                            (unsigned long long)diff->special, (unsigned long long)diff->count,
                            diff->worst_got, diff->worst_want);
    return arena_printf(arena, "largest difference %.3g, that is %.3g of the largest magnitude",
                        diff->max_abs, diff->error);
}

void output_error_json(JsonWriter *json, const ValueDiff *diff, const Limit *limit) {
    json_boolean(json, "beyond", limit_beyond(limit, diff));
    if (diff->mismatch) {
        json_text(json, "mismatch", diff->mismatch);
        return;
    }
    json_unsigned(json, "count", diff->count);
    json_number(json, "max_error", diff->max_abs);
    json_number(json, "mean_error", diff->mean_abs);
    json_number(json, "scale", diff->scale);
    json_number(json, "error", diff->error);
    json_number(json, "ulp", diff->ulp);
    json_text(json, "ulp_type", dtype_name((Dtype)diff->ulp_of));
    json_number(json, "sqnr", diff->sqnr);
    json_number(json, "cosine", diff->cosine);
    json_unsigned(json, "special", diff->special);
}
