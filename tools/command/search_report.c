// SPDX-License-Identifier: Apache-2.0
/* A search as text and JSON; see search_out.h. */
#include <math.h>
#include <string.h>

#include "search_out.h"

/* ---- words ----------------------------------------------------------------------------------- */

static const char *outcome_word(DemiSearchOutcome outcome) {
    switch (outcome) {
    case DEMI_FOUND: return "found";
    case DEMI_FOUND_TRIVIAL: return "trivial";
    case DEMI_FOUND_NOTHING: return "unattainable";
    case DEMI_FOUND_SO_FAR: return "ended";
    case DEMI_FOUND_CURVE: return "curve";
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

void search_print(const SearchTitle *title, bool color, FILE *out) {
    const DemiSearch *search = title->search;
    const DemiSearchTotals *totals = demi_search_totals(search);
    const DemiSearchPoint *best = demi_search_point(search, totals->best);
    const DemiSearchPoint *widest = demi_search_point(search, totals->widest);
    fprintf(out, "%s%s%s", console_paint(color, PAINT_HEAD), title->input,
            console_paint(color, PAINT_PLAIN));
    if (title->output) fprintf(out, " -> %s", title->output);
    fprintf(out, ": %s\n", outcome_text(totals->outcome));
    fprintf(out, "  %-14s %.6g", title->metric, best->score);
    if (isfinite(best->score_error)) fprintf(out, " +- %.2g", best->score_error);
    if (isfinite(totals->target)) fprintf(out, ", target %.6g", totals->target);
    fprintf(out, "; widest %.6g, float %.6g\n", widest->score, totals->float_score);
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

void search_write_json(const SearchTitle *title, JsonWriter *json) {
    const DemiSearch *search = title->search;
    const DemiSearchTotals *totals = demi_search_totals(search);
    json_open(json, NULL, '{');
    json_text(json, "demi", demi_version());
    json_text(json, "input", title->input);
    if (title->output) json_text(json, "output", title->output);
    json_text(json, "outcome", outcome_word(totals->outcome));
    json_text(json, "says", outcome_text(totals->outcome));
    json_text(json, "metric", title->metric);
    write_objectives(title->cost, json);
    json_number(json, "target", totals->target);
    json_number(json, "float_score", totals->float_score);
    if (totals->float_seconds > 0) json_number(json, "float_seconds", totals->float_seconds);
    json_unsigned(json, "evaluations", totals->evaluations);
    json_unsigned(json, "partial_runs", totals->replays);
    json_text(json, "assumed", totals->assumed);
    json_unsigned(json, "best", totals->best);
    json_unsigned(json, "widest", totals->widest);
    json_open(json, "candidates", '[');
    for (size_t c = 0; c < demi_search_candidate_count(search); c++)
        json_text(json, NULL, demi_search_candidate(search, c));
    json_close(json, ']');
    write_groups(search, json);
    json_open(json, "points", '[');
    write_points(search, false, json);
    json_close(json, ']');
    json_close(json, '}');
}
