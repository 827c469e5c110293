// SPDX-License-Identifier: Apache-2.0
/* Holding outputs against outputs; see output_error.h. */
#include "output_error.h"

#include <string.h>
#include <sys/stat.h>

#include "dtype.h"
#include "op_record.h"
#include "value_io.h"

static const double limit_float = 1e-4, limit_low = 0.02, limit_quantized = 0.1;
/* Below its smallest normal number, 2^-14, float16 has no precision to speak of. */
static const double least_float = 1e-7, least_low = 6.2e-5;

void limit_settle(DemiLimit *limit, ValueKinds kinds) {
    const double low = kinds.low ? limit_low : limit_float;
    if (limit->error < 0) limit->error = kinds.quantized ? limit_quantized : low;
    if (limit->least < 0) limit->least = kinds.low ? least_low : least_float;
}

/* It multiplies bytes: floats were rounded to them, perhaps by operators that say nothing of it. */
static bool multiplies_bytes(const DemiStep *step) {
    const OpRecord *op = op_record_find(step->domain, step->op_type);
    return op && op->work > WORK_MOVES && step->input_count && step->output_count &&
           (step->inputs[0].dtype == DTYPE_UINT8 || step->inputs[0].dtype == DTYPE_INT8);
}

bool step_dequantizes(const DemiStep *step) {
    if (multiplies_bytes(step)) return true;
    return strcmp(step->op_type, "DequantizeLinear") == 0 && step->output_count == 1 &&
           step->outputs[0].dtype == DTYPE_FLOAT;
}

bool demi_limit_beyond(const DemiLimit *limit, const DemiDistance *diff) {
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
    size_t k = session_find_io(a->outputs, a->output_count, b->outputs[i].name, i);
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
        const DemiData *want = reference->session ? find_output(reference, session, i) : &value;
        bool found = want != NULL;
        DemiOutputError row = {.name = io->name, .set = ""};
        if (!reference->session && !read_output(arena, reference->name, io, i, &value, &found, err))
            return false;
        if (!found) continue;
        value_compare(arena, demi_context_output(session->context, i), want, &any_float, &row.diff);
        VEC_PUSH(arena, rows, row);
    }
    if (rows->count > before || !session->output_count) return true;
    err_set(err, ERR_USAGE, "it has no output in common with '%s'", session->path);
    err_file(err, reference->name);
    if (!reference->session)
        err_hint(err,
                 "a folder holds output_0.pb, ... or NAME.npy, as 'demi run --output-dir' writes "
                 "them");
    return false;
}

bool output_error_is_worse(const DemiDistance *a, const DemiDistance *b) {
    if (!a->mismatch != !b->mismatch) return a->mismatch;
    if (!a->special != !b->special) return a->special;
    return a->error > b->error;
}
