// SPDX-License-Identifier: Apache-2.0
/* A search as text and JSON; see search_out.h. */
#include <math.h>
#include <string.h>

#include "policy_settings.h"
#include "search_out.h"

/* ---- words ----------------------------------------------------------------------------------- */

static const char *outcome_word(DemiSearchOutcome outcome) {
    switch (outcome) {
    case DEMI_FOUND:
    case DEMI_FOUND_TRIVIAL: return "found";
    case DEMI_FOUND_NOTHING: return "unattainable";
    case DEMI_FOUND_SO_FAR: return "ended";
    case DEMI_FOUND_CURVE: return "curve";
    case DEMI_FOUND_UNCONFIRMED: return "unconfirmed";
    }
    return "";
}

static const char *outcome_text(DemiSearchOutcome outcome) {
    switch (outcome) {
    case DEMI_FOUND: return "the cheapest assignment that reaches the target";
    case DEMI_FOUND_TRIVIAL: return "the cheapest precision for all groups reaches the target";
    case DEMI_FOUND_NOTHING:
        return "not even the widest precisions reach the target: no model is written";
    case DEMI_FOUND_SO_FAR:
        return "the cheapest assignment that reached the target before the search was ended";
    case DEMI_FOUND_CURVE:
        return "no target: the unchanged model, and the cost of reducing its precision";
    case DEMI_FOUND_UNCONFIRMED:
        return "the target is reached on the sets of the search, but not confirmed on held-out "
               "data: no model is written";
    }
    return "";
}

double search_share(const DemiSearch *search, const DemiSearchPoint *point) {
    const DemiSearchPoint *widest = demi_search_point(search, demi_search_totals(search)->widest);
    return widest && widest->cost > 0 ? point->cost / widest->cost : 1;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_candidates(const DemiSearch *search, FILE *out) {
    size_t groups = demi_search_group_count(search);
    fprintf(out, "  groups         %zu:", groups);
    for (size_t c = 0; c < demi_search_candidate_count(search); c++) {
        size_t count = 0;
        for (size_t i = 0; i < groups; i++) count += demi_search_group(search, i)->candidate == c;
        fprintf(out, "%s %zu %s", c ? "," : "", count, demi_search_candidate(search, c));
    }
    fputc('\n', out);
}

static void print_share(FILE *out, const char *what, double now, double widest) {
    fprintf(out, "  %-14s %.4g", what, now);
    if (widest > 0) fprintf(out, "  (%.4f of the widest)", now / widest);
    fputc('\n', out);
}

static bool is_held_out(const DemiSearchTotals *totals) {
    return totals->holdout_tests > 0;
}

static void print_held_out(const SearchTitle *title, const DemiSearchTotals *totals, FILE *out) {
    fprintf(out, "  %-14s %.6g on held-out data", title->metric, totals->holdout_score);
    if (isfinite(totals->holdout_low) && isfinite(totals->holdout_high))
        fprintf(out, ", %.4g to %.4g with %g %% confidence", totals->holdout_low,
                totals->holdout_high, 100 * totals->confidence);
    if (isfinite(totals->holdout_target)) fprintf(out, ", target %.6g", totals->holdout_target);
    fprintf(out, "\n  %-14s", "for selection");
}

static void print_score(const SearchTitle *title, FILE *out) {
    const DemiSearchTotals *totals = demi_search_totals(title->search);
    const DemiSearchPoint *best = demi_search_point(title->search, totals->best);
    const DemiSearchPoint *widest = demi_search_point(title->search, totals->widest);
    if (is_held_out(totals))
        print_held_out(title, totals, out);
    else
        fprintf(out, "  %-14s", title->metric);
    fprintf(out, " %.6g", best->score);
    if (isfinite(best->score_error)) fprintf(out, " +- %.2g", best->score_error);
    if (isfinite(totals->target) && !is_held_out(totals))
        fprintf(out, ", target %.6g", totals->target);
    fprintf(out, "; widest %.6g, float %.6g\n", widest->score, totals->float_score);
}

static void print_sets(const DemiSearchTotals *totals, FILE *out) {
    fprintf(out, "  sets           ");
    if (totals->calibration_sets)
        fprintf(out, "%zu for calibration, %zu for selection", totals->calibration_sets,
                totals->selection_sets);
    else
        fprintf(out, "%zu for calibration and selection", totals->selection_sets);
    if (totals->holdout_sets) fprintf(out, ", %zu held out", totals->holdout_sets);
    if (totals->holdout_rows) fprintf(out, " (%zu rows)", totals->holdout_samples);
    if (is_held_out(totals))
        fprintf(out, "; %zu of at most %zu acceptance tests", totals->holdout_tests,
                totals->holdout_tests_most);
    else if (totals->outcome != DEMI_FOUND_CURVE && !totals->holdout_sets)
        fprintf(out, "; none held out: the score may be lower on new data");
    fputc('\n', out);
}

void search_print(const SearchTitle *title, bool color, FILE *out) {
    const DemiSearch *search = title->search;
    const DemiSearchTotals *totals = demi_search_totals(search);
    const DemiSearchPoint *best = demi_search_point(search, totals->best);
    const DemiSearchPoint *widest = demi_search_point(search, totals->widest);
    fprintf(out, "%s%s%s", console_paint(color, PAINT_HEAD), title->input,
            console_paint(color, PAINT_PLAIN));
    if (title->output) fprintf(out, " -> %s", title->output);
    fprintf(out, ": %s\n", outcome_text(totals->outcome));
    print_score(title, out);
    print_sets(totals, out);
    print_candidates(search, out);
    print_share(out, "BitOps", best->bitops, widest->bitops);
    print_share(out, "activations, B", best->activation_bytes, widest->activation_bytes);
    print_share(out, "weights, B", best->weight_bytes, widest->weight_bytes);
    fprintf(out, "  conversions    %llu casts or Q/DQ between precisions\n",
            (unsigned long long)best->boundaries);
    if (isfinite(best->seconds))
        fprintf(out, "  a run          %.3g ms predicted\n", 1e3 * best->seconds);
    if (isfinite(best->measured))
        fprintf(out, "                 %.3g ms measured; float %.3g ms\n", 1e3 * best->measured,
                1e3 * totals->float_seconds);
    fprintf(out,
            "  search         %zu evaluations, %zu partial runs of %.2f on average, %.1f s, of "
            "which %.2f for sensitivities\n",
            totals->evaluations, totals->replays, totals->replayed, totals->seconds,
            totals->groups_seconds);
    if (totals->assumed[0]) fprintf(out, "  sizes assumed: %s\n", totals->assumed);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_point(const DemiSearch *search, const DemiSearchPoint *point, JsonWriter *json) {
    json_open(json, NULL, '{');
    json_number(json, "score", point->score);
    json_number(json, "score_error", point->score_error);
    json_number(json, "cost", search_share(search, point));
    json_number(json, "bitops", point->bitops);
    json_number(json, "activation_bytes", point->activation_bytes);
    json_number(json, "weight_bytes", point->weight_bytes);
    json_unsigned(json, "conversions", point->boundaries);
    if (isfinite(point->seconds)) json_number(json, "seconds", point->seconds);
    if (isfinite(point->measured)) json_number(json, "measured", point->measured);
    json_boolean(json, "feasible", point->feasible);
    json_boolean(json, "front", point->on_front);
    json_open(json, "groups", '['); /* how many have each candidate */
    for (size_t c = 0; c < demi_search_candidate_count(search); c++) {
        uint64_t count = 0;
        for (size_t g = 0; g < demi_search_group_count(search); g++)
            count += point->candidates[g] == c;
        json_unsigned(json, NULL, count);
    }
    json_close(json, ']');
    json_close(json, '}');
}

static void write_groups(const DemiSearch *search, JsonWriter *json) {
    json_open(json, "groups", '[');
    for (size_t i = 0; i < demi_search_group_count(search); i++) {
        const DemiSearchGroup *group = demi_search_group(search, i);
        json_open(json, NULL, '{');
        json_text(json, "name", group->name);
        json_text(json, "node", group->node);
        json_text(json, "op_type", group->op_type);
        json_text(json, "candidate", demi_search_candidate(search, group->candidate));
        json_text(json, "reason", group->reason);
        json_number(json, "multiplications", group->multiplications);
        json_number(json, "elements", group->elements);
        json_number(json, "weight_elements", group->weight_elements);
        json_open(json, "noise", '[');
        for (size_t c = 0; c < demi_search_candidate_count(search); c++)
            json_number(json, NULL, group->noise[c]);
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void write_points(const DemiSearch *search, bool front, JsonWriter *json) {
    for (size_t i = 0; i < demi_search_point_count(search); i++) {
        const DemiSearchPoint *point = demi_search_point(search, i);
        if (!front || point->on_front) write_point(search, point, json);
    }
}

void search_write_front(const SearchTitle *title, JsonWriter *json) {
    json_open(json, NULL, '[');
    write_points(title->search, true, json);
    json_close(json, ']');
}

/* What the front is of, the metric first. */
static void write_objectives(DemiSearchCost cost, JsonWriter *json) {
    json_open(json, "objectives", '[');
    json_text(json, NULL, "score");
    switch (cost) {
    case DEMI_COST_BITOPS:
        json_text(json, NULL, "bitops");
        json_text(json, NULL, "activation_bytes");
        break;
    case DEMI_COST_BYTES: json_text(json, NULL, "bytes"); break;
    case DEMI_COST_LATENCY:
        json_text(json, NULL, "latency");
        json_text(json, NULL, "bytes");
        break;
    }
    json_close(json, ']');
}

static const char *holdout_word(DemiHoldout how) {
    switch (how) {
    case DEMI_HOLDOUT_NONE: return "none";
    case DEMI_HOLDOUT_SETS: return "sets";
    case DEMI_HOLDOUT_GIVEN: return "given";
    case DEMI_HOLDOUT_SCORE: return "score";
    }
    return "";
}

static void write_sets(const DemiSearchTotals *totals, JsonWriter *json) {
    json_open(json, "sets",
              '{'); /* those for selection are also for calibration if no others are */
    json_unsigned(json, "calibration", totals->calibration_sets);
    json_unsigned(json, "selection", totals->selection_sets);
    json_unsigned(json, "holdout", totals->holdout_sets);
    json_close(json, '}');
    json_open(json, "holdout", '{');
    json_number(json, "score", totals->holdout_score);
    json_number(json, "low", totals->holdout_low);
    json_number(json, "high", totals->holdout_high);
    json_number(json, "target", totals->holdout_target);
    json_number(json, "confidence", totals->confidence);
    json_text(json, "how", holdout_word(totals->holdout));
    json_text(json, "of", totals->holdout_rows ? "rows" : "sets");
    json_unsigned(json, "samples", totals->holdout_samples);
    json_unsigned(json, "tests", totals->holdout_tests);
    json_unsigned(json, "tests_most", totals->holdout_tests_most);
    json_close(json, '}');
}

/* Of each candidate. */
static void write_types(const DemiSearch *search, JsonWriter *json) {
    json_open(json, "types", '[');
    for (size_t c = 0; c < demi_search_candidate_count(search); c++) {
        json_open(json, NULL, '{');
        json_text(json, "activations", demi_search_candidate_type(search, c, false));
        json_text(json, "weights", demi_search_candidate_type(search, c, true));
        json_close(json, '}');
    }
    json_close(json, ']');
}

void search_write_json(const SearchTitle *title, JsonWriter *json) {
    const DemiSearch *search = title->search;
    const DemiSearchTotals *totals = demi_search_totals(search);
    json_open(json, NULL, '{');
    json_text(json, "demi", demi_version());
    json_text(json, "input", title->input);
    if (title->output) json_text(json, "output", title->output);
    json_text(json, "outcome", outcome_word(totals->outcome));
    json_boolean(json, "trivial", totals->outcome == DEMI_FOUND_TRIVIAL);
    json_text(json, "says", outcome_text(totals->outcome));
    json_text(json, "metric", title->metric);
    json_text(json, "runtime", policy_settings[SETTING_RUNTIME].choices[totals->runtime].word);
    write_objectives(title->cost, json);
    json_number(json, "target", totals->target);
    json_number(json, "aim", totals->aim);
    json_number(json, "float_score", totals->float_score);
    if (totals->float_seconds > 0) json_number(json, "float_seconds", totals->float_seconds);
    write_sets(totals, json);
    json_unsigned(json, "evaluations", totals->evaluations);
    json_unsigned(json, "partial_runs", totals->replays);
    json_text(json, "assumed", totals->assumed);
    json_unsigned(json, "best", totals->best);
    json_unsigned(json, "widest", totals->widest);
    json_open(json, "candidates", '[');
    for (size_t c = 0; c < demi_search_candidate_count(search); c++)
        json_text(json, NULL, demi_search_candidate(search, c));
    json_close(json, ']');
    write_types(search, json);
    write_groups(search, json);
    json_open(json, "points", '[');
    write_points(search, false, json);
    json_close(json, ']');
    json_close(json, '}');
}
