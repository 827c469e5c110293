// SPDX-License-Identifier: Apache-2.0
/* Writing and reading of reproducers; see reproducer.h. */
#include "reproducer.h"

#include <inttypes.h>
#include <string.h>

#include "outputs.h"
#include "source.h"

/* As text, weights take about five times their bytes. */
enum { MOST_BYTES = 64 << 20, MOST_HEAD = 1 << 20 };

static const char pipeline_mark[] = "# pipeline: ";

static void put(OutputFile *output, const char *text, size_t size) {
    outputs_write(output, text, size);
}

/* The pipeline on one line: a line break within quotes becomes an escape. */
static void put_pipeline(OutputFile *output, const char *pipeline) {
    bool quoted = false;
    put(output, pipeline_mark, sizeof pipeline_mark - 1);
    for (const char *c = pipeline; *c; c++) {
        if (*c == '"') quoted = !quoted;
        if (*c == '\\' && c[1]) put(output, c++, 1);
        if (*c == '\n')
            put(output, quoted ? "\\n" : " ", quoted ? 2 : 1);
        else
            put(output, c, 1);
    }
    put(output, "\n", 1);
}

static bool is_small(DemiModel *model, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiReport *report = NULL;
    if (!error_take(err, demi_describe(model, &report, &error), &error)) return false;
    uint64_t bytes = demi_report_totals(report)->bytes_before;
    demi_report_free(report);
    if (bytes <= MOST_BYTES) return true;
    return err_set(err, ERR_MODEL, "its weights take %" PRIu64 " MB, more than %d", bytes >> 20,
                   MOST_BYTES >> 20);
}

static bool write_file(Program *program, DemiModel *model, const char *path, const char *pipeline,
                       const Err *fault, Err *err) {
    char line[2048];
    DemiError error = DEMI_ERROR_INIT;
    OutputFile output = {.file = outfile_create(program->arena, path, err), .err = err};
    if (!output.file) return false;
    err_format(fault, line, sizeof line);
    const char *head = arena_printf(program->arena, "# demi %s: %s\n", demi_version(), line);
    put(&output, head, strlen(head));
    put_pipeline(&output, pipeline);
    DemiStatus status = demi_print(model, true, outputs_write, &output, &error);
    if (err->code != ERR_NONE || !error_take(err, status, &error)) return false;
    return outfile_commit(output.file, err);
}

void reproducer_write(Program *program, const Parsed *parsed, const char *pipeline, Err *fault) {
    const char *path = parsed_value(parsed, "reproducer"), *input = parsed_argument(parsed, 0);
    if (!path || fault->code == ERR_USAGE || !pipeline) return;
    Err err = {.code = ERR_NONE};
    DemiModel *model = NULL;
    if (strcmp(input, "-") == 0)
        err_set(&err, ERR_USAGE, "cannot read the input again");
    else if (console_load(program, parsed, input, &model, &err) && is_small(model, &err))
        write_file(program, model, path, pipeline, fault, &err);
    demi_free(model);
    fault->hint[0] = '\0';
    if (err.code == ERR_NONE && parsed_flag(parsed, "load-pass"))
        err_hint(fault, "'demi opt %s' with the same --load-pass repeats this", path);
    else if (err.code == ERR_NONE)
        err_hint(fault, "'demi opt %s' repeats this; please attach that file to a report", path);
    else
        err_hint(fault, "no reproducer was written: %s", err.what);
}

const char *reproducer_pipeline(Program *program, const char *path) {
    if (strcmp(path, "-") == 0) return NULL;
    Source *source = source_open(program->arena, path, MOST_HEAD, NULL);
    if (!source) return NULL;
    size_t size = source->size < MOST_HEAD ? (size_t)source->size : MOST_HEAD;
    char *text = arena_alloc(program->arena, size + 1);
    if (!source_read(source, 0, text, size, NULL)) return NULL;
    for (char *line = text; *line == '#';) {
        size_t length = strcspn(line, "\n");
        if (!line[length]) return NULL;
        line[length] = '\0';
        if (strncmp(line, pipeline_mark, sizeof pipeline_mark - 1) == 0)
            return line + sizeof pipeline_mark - 1;
        line += length + 1;
    }
    return NULL;
}
