// SPDX-License-Identifier: Apache-2.0
/* What a verdict says, in words and as JSON; see judge_text.h. */
#include "judge_text.h"

#include <math.h>

#include "dtype.h"
#include "report_out.h"

const char *output_error_text(Arena *arena, const DemiDistance *diff) {
    if (diff->mismatch) return diff->mismatch;
    if (diff->special)
        return arena_printf(
            arena,
            "%llu of %llu elements are NaN or infinite in only one of them: %.6g, expected %.6g",
            (unsigned long long)diff->special, (unsigned long long)diff->count, diff->worst_got,
            diff->worst_want);
    return arena_printf(arena, "largest difference %.3g, which is %.3g of the largest magnitude",
                        diff->max_abs, diff->error);
}

void output_error_json(JsonWriter *json, const DemiDistance *diff, const DemiLimit *limit) {
    json_boolean(json, "beyond", demi_limit_beyond(limit, diff));
    if (diff->mismatch) {
        json_text(json, "mismatch", diff->mismatch);
        return;
    }
    json_unsigned(json, "count", diff->count);
    json_number(json, "max_error", diff->max_abs);
    json_number(json, "mean_error", diff->mean_abs);
    json_number(json, "scale", diff->scale);
    json_number(json, "error", diff->error);
    if (dtype_is_float((Dtype)diff->ulp_of)) {
        json_number(json, "ulp", diff->ulp);
        json_text(json, "ulp_type", dtype_name((Dtype)diff->ulp_of));
    }
    json_number(json, "sqnr", diff->sqnr);
    json_number(json, "cosine", diff->cosine);
    json_unsigned(json, "special", diff->special);
}

void pick_print(const DemiPick *row, FILE *out) {
    fprintf(out, "%s '", row->op_type);
    report_put(out, row->node, strlen(row->node));
    fprintf(out, "': %llu of %llu selected the same, the others ", (unsigned long long)row->same,
            (unsigned long long)row->count);
    if (isfinite(row->margin))
        fprintf(out, "within %.2g of a tie", row->margin);
    else
        fputs("without a tie", out);
}

void pick_json(JsonWriter *json, const DemiPick *row, const DemiLimit *limit) {
    json_open(json, NULL, '{');
    json_text(json, "node", row->node);
    json_text(json, "op_type", row->op_type);
    json_unsigned(json, "count", row->count);
    json_unsigned(json, "same", row->same);
    json_number(json, "margin", row->margin);
    json_boolean(json, "beyond", demi_pick_beyond(limit, row));
    json_close(json, '}');
}

void picks_json(JsonWriter *json, const DemiVerdict *verdict, const DemiLimit *limit) {
    size_t count = demi_verdict_pick_count(verdict);
    if (count == 0) return;
    json_open(json, "picks", '[');
    for (size_t i = 0; i < count; i++) pick_json(json, demi_verdict_pick(verdict, i), limit);
    json_close(json, ']');
}
