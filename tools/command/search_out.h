// SPDX-License-Identifier: Apache-2.0
/* What a finished search looks like: a table, JSON, drawings, and a page that opens offline. */
#ifndef DEMI_SEARCH_OUT_H
#define DEMI_SEARCH_OUT_H

#include "console.h"
#include "demi_search.h"
#include "dtype.h"
#include "report_out.h"

/* What the command knows beside. */
typedef struct SearchTitle {
    const char *input, *output; /* output: NULL where nothing is written */
    const char *metric;         /* what scores are called */
    DemiSearchCost cost;        /* what is minimized */
    double written_score;       /* of the file that was written, read back and run; NaN: none was */
    const DemiSearch *search;
} SearchTitle;

/* A dozen lines: what was found, at what cost, in how many runs. */
void search_print(const SearchTitle *title, bool color, FILE *out);

/* The whole result as one JSON object, and its front alone. */
void search_write_json(const SearchTitle *title, JsonWriter *json);
void search_write_front(const SearchTitle *title, JsonWriter *json);

/* AIMET's accuracy_list.json and pareto_list.json, as its package for ONNX writes them
 * (search_lists.c). */
void search_write_entries(const SearchTitle *title, JsonWriter *json);
void search_write_places(const SearchTitle *title, JsonWriter *json);

/* Scores by cost, the front and the target; and what each group alone does, the worst first. As SVG. */
bool search_draw_front(const SearchTitle *title, DemiWriteFn write, void *user);
bool search_draw_groups(const SearchTitle *title, DemiWriteFn write, void *user);

/* All of it as a page. */
bool search_write_page(const SearchTitle *title, Arena *arena, OutFile *file, Err *err);

/* The type that a candidate stores activations or weights in. */
Dtype search_type(const DemiSearch *search, size_t candidate, bool weights);

/* The color of a candidate in page_palette.h, in `name`: of pairs without a short name that of as many bits. */
enum { SEARCH_COLOR = 16 };
const char *search_color(const DemiSearch *search, size_t candidate, char name[SEARCH_COLOR]);

/* What a point costs, by the cost of the first candidate everywhere. */
double search_share(const DemiSearch *search, const DemiSearchPoint *point);

#endif
