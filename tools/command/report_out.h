// SPDX-License-Identifier: Apache-2.0
/* Reports for people and for scripts: the before/after table and its JSON, of a DemiReport. */
#ifndef DEMI_REPORT_OUT_H
#define DEMI_REPORT_OUT_H

#include <stdio.h>

#include "console.h"
#include "demi.h"
#include "json_write.h"
#include "outputs.h"

/* What a finished conversion was, beside its report. */
typedef struct ReportTitle {
    const char *input, *output;      /* output: NULL where nothing is written */
    double seconds;                  /* from start to end, reading and writing included */
    bool color;                      /* of the table */
    const DemiModel *model;          /* converted: for the page's drawing; NULL: none */
    const struct Verified *verified; /* NULL, or what running it has shown */
} ReportTitle;

/* The before/after table: at most 30 lines. */
void report_print(const DemiReport *report, const ReportTitle *title, FILE *out);

/* What `show` and `check` print of one model. */
void report_print_stats(const DemiReport *report, const char *name, FILE *out);

/* Prints text from a model, or a path, as escaped.h has it: a name must not steer the terminal. */
void report_put(FILE *out, const char *text, size_t length);
void report_puts(FILE *out, const char *text);

/* Seconds of each pass. */
void report_print_times(const DemiReport *report, FILE *out);

/* What was found and done beside what was asked for, as repairs of the model: a note each. */
void report_print_remarks(const DemiReport *report, FILE *out);

/* "demi.h"'s report as one JSON object: nodes, casts, bytes, values, operators, weights, passes. */
void report_write_json(const DemiReport *report, const ReportTitle *title, JsonWriter *json);

/* Writes the facts common to all JSON outputs: versions, opsets, inputs, outputs, weights. */
void report_write_facts(const DemiReport *report, JsonWriter *json);

/* Members of report_write_json, without its braces. */
void report_write_fields(const DemiReport *report, const ReportTitle *title, JsonWriter *json);

/* A member "graph": the main graph as the page draws it. Memory is of `arena`. */
void report_write_graph(const DemiReport *report, const DemiModel *model, Arena *arena,
                        JsonWriter *json);

/* The same as one HTML page that opens offline, to a file that outputs_open gave. */
bool report_write_html(Arena *arena, const DemiReport *report, const ReportTitle *title,
                       OutFile *file, Err *err);

/* outputs_open of what is not a model: ERR_USAGE where `path` is called like one, too. */
OutFile *report_open(Program *program, const char *option, const char *path, Err *err);

/* Where a command's reports go. */
typedef struct ReportPlan {
    FILE *results;    /* what was asked for: standard output, or error where it has another use */
    FILE *text;       /* the report; the same, or NULL: none */
    const char *json; /* path, "-", or NULL */
    bool json_error;  /* "-" means standard error: standard output has another use */
    OutFile *file;    /* of the JSON, opened; NULL: it goes to a stream */
    bool color;       /* of the text */
} ReportPlan;

/* From --json, --quiet (where the command has it) and whether standard output has another use, as
 * for a model. Opens the file of the JSON: see outputs_open. ERR_USAGE where that would overwrite a
 * model. */
bool report_plan(Program *program, bool output_taken, ReportPlan *plan, Err *err);

/* Calls fill(json, data) and writes what it gives to where the plan says; a file appears with
 * outputs_commit. */
typedef void (*JsonFill)(JsonWriter *json, void *data);
bool report_json_to(Program *program, const ReportPlan *plan, JsonFill fill, void *data, Err *err);

#endif
