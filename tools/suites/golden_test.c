// SPDX-License-Identifier: Apache-2.0
/* Runs the golden cases: models as text, a pipeline, and the text that must come out.
 *
 *     golden_test [--update] FILE|FOLDER …
 *
 * A file holds cases; lines before the first `===` that begin with # are a comment on the file:
 *
 *     === title
 *     --- pass PIPELINE
 *     MODEL TEXT
 *     --- expect                   the model after the pipeline, or
 *     MODEL TEXT
 *     --- unchanged                nothing may change, or
 *     --- error model: MESSAGE     model | usage | env, and the error's line
 *
 * Of every model, before and after the pipeline: structure is verified, its text is read back as
 * the same model, and so is its ONNX form. Passes are verified one by one; a pipeline of idempotent
 * passes runs a second time and must find nothing to do. A model with fused operators must be
 * refused as ONNX. Expectations are compared in their canonical print. --update writes what came
 * out into the files; review the difference.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compare.h"
#include "fused_ops.h"
#include "onnx_export.h"
#include "onnx_import.h"
#include "passes.h"
#include "text.h"
#include "verify.h"

typedef enum Wanted { WANT_NOTHING, WANT_TEXT, WANT_UNCHANGED, WANT_ERROR } Wanted;

/* One case: parts of the file's text. */
typedef struct Case {
    const char *title, *pipeline, *input, *expectation;
    size_t title_length, pipeline_length, input_length, expectation_length;
    Wanted wanted;
    const char *error; /* of WANT_ERROR: after "--- error " */
    size_t error_length;
    const char *begin, *tail; /* whole case; where its expectation begins */
    const char *end;
    bool last; /* in its file */
} Case;

typedef struct Runner {
    Arena *arena; /* of the file being run */
    MemTrap *trap;
    const char *path;
    bool update;
    bool changed; /* the file's new text differs */
    unsigned cases, failed;
} Runner;

typedef struct Buffer {
    Arena *arena;
    VEC(char) text;
} Buffer;

static void buffer_put(Buffer *buffer, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) VEC_PUSH(buffer->arena, &buffer->text, text[i]);
}

static void buffer_write(void *data, const char *text, size_t size) {
    buffer_put(data, text, size);
}

static bool buffer_bytes(void *data, const void *bytes, size_t size, Err *err) {
    (void)err;
    buffer_put(data, bytes, size);
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool case_failed(const Runner *runner, const Case *the, const char *what, const Err *err) {
    char line[2048] = "";
    if (err) err_format(err, line, sizeof line);
    printf("FAILED %s: %.*s: %s%s%s\n", runner->path, (int)the->title_length, the->title, what,
           err ? ": " : "", line);
    return false;
}

typedef struct Lines {
    const char **starts;
    size_t *lengths;
    size_t count;
} Lines;

static Lines split_lines(Arena *arena, const char *text) {
    Lines lines = {0};
    size_t most = 1;
    for (const char *at = text; *at; at++) most += *at == '\n';
    lines.starts = ARENA_ARRAY(arena, const char *, most);
    lines.lengths = ARENA_ARRAY(arena, size_t, most);
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n");
        lines.starts[lines.count] = at;
        lines.lengths[lines.count++] = length;
        at += length + (at[length] == '\n');
    }
    return lines;
}

static bool same_line(const Lines *a, size_t i, const Lines *b, size_t j) {
    return a->lengths[i] == b->lengths[j] && !memcmp(a->starts[i], b->starts[j], a->lengths[i]);
}

static void print_lines(char mark, const Lines *lines, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        printf("%c%.*s\n", mark, (int)lines->lengths[i], lines->starts[i]);
}

/* Prints what differs: the lines between the common beginning and the common end, by their longest
 * common subsequence where they are few. */
static void print_diff(Arena *arena, const char *wanted, const char *got) {
    enum { CONTEXT = 2, MOST = 1000 };
    Lines a = split_lines(arena, wanted), b = split_lines(arena, got);
    size_t head = 0, tail = 0;
    while (head < a.count && head < b.count && same_line(&a, head, &b, head)) head++;
    while (tail < a.count - head && tail < b.count - head &&
           same_line(&a, a.count - 1 - tail, &b, b.count - 1 - tail))
        tail++;
    size_t n = a.count - head - tail, m = b.count - head - tail, i = 0, j = 0;
    printf("--- expected\n+++ got\n@@ line %zu @@\n", head + 1);
    print_lines(' ', &a, head > CONTEXT ? head - CONTEXT : 0, head);
    if (n <= MOST && m <= MOST) {
        uint16_t *common = ARENA_ARRAY(arena, uint16_t, (n + 1) * (m + 1));
#define COMMON(i, j) common[(i) * (m + 1) + (j)]
        for (size_t x = n; x-- > 0;)
            for (size_t y = m; y-- > 0;)
                COMMON(x, y) = same_line(&a, head + x, &b, head + y)
                                   ? (uint16_t)(COMMON(x + 1, y + 1) + 1)
                               : COMMON(x + 1, y) > COMMON(x, y + 1) ? COMMON(x + 1, y)
                                                                     : COMMON(x, y + 1);
        while (i < n && j < m) {
            if (same_line(&a, head + i, &b, head + j)) {
                print_lines(' ', &a, head + i, head + i + 1);
                i++, j++;
            } else if (COMMON(i + 1, j) >= COMMON(i, j + 1)) {
                print_lines('-', &a, head + i, head + i + 1);
                i++;
            } else {
                print_lines('+', &b, head + j, head + j + 1);
                j++;
            }
        }
#undef COMMON
    }
    print_lines('-', &a, head + i, head + n);
    print_lines('+', &b, head + j, head + m);
    print_lines(' ', &a, head + n, head + n + (tail < CONTEXT ? tail : CONTEXT));
}

/* ---- one model ------------------------------------------------------------------------------- */

static const char *print_model(Runner *runner, const Model *model, Err *err) {
    Buffer buffer = {.arena = runner->arena};
    TextSink sink = {buffer_write, &buffer};
    if (!text_print_model(model, TEXT_FULL, &sink, err)) return NULL;
    buffer_put(&buffer, "", 1);
    return buffer.text.items;
}

/* `again` (freed here) must be the same model as `model`, which prints as `text`. */
static bool same_model(Runner *runner, const Model *model, Model *again, Err *err) {
    if (!again) return false;
    bool same = model_compare(model, again, NULL, err);
    const char *text = print_model(runner, model, err), *other = print_model(runner, again, err);
    model_free(again);
    if (!same || !text || !other) return false;
    if (!strcmp(text, other)) return true;
    print_diff(runner->arena, text, other);
    return err_set(err, ERR_MODEL, "the text changes");
}

static bool holds_fused(Runner *runner, const Model *model) {
    GraphList graphs = model_graphs(model, runner->arena);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (sym_equals(node->domain, FUSED_DOMAIN)) return true;
    return false;
}

/* Structure, text -> model and ONNX -> model. ONNX files must say their version. */
static bool check_model(Runner *runner, const Case *the, const Model *model, const char *when) {
    Err err = {0};
    char what[100];
    const char *text = print_model(runner, model, &err);
    if (!text) return case_failed(runner, the, when, &err);
    Model *again = text_parse_model(text, strlen(text), runner->trap, &err);
    if (!same_model(runner, model, again, &err)) {
        snprintf(what, sizeof what, "%s: text is not read back as the same model", when);
        return case_failed(runner, the, what, &err);
    }
    if (!model->has_ir_version || model->opsets.count == 0) return true;
    Buffer bytes = {.arena = runner->arena};
    ByteSink sink = {buffer_bytes, &bytes};
    if (holds_fused(runner, model)) {
        if (!onnx_export(model, runner->arena, &sink, &err)) return true;
        return case_failed(runner, the, "fused operators are written as ONNX", NULL);
    }
    snprintf(what, sizeof what, "%s: ONNX is not read back as the same model", when);
    if (!onnx_export(model, runner->arena, &sink, &err))
        return case_failed(runner, the, what, &err);
    ImportBytes input = {bytes.text.items, bytes.text.count, "golden"};
    again = onnx_import_memory(&input, NULL, runner->trap, &err);
    if (!same_model(runner, model, again, &err)) return case_failed(runner, the, what, &err);
    return true;
}

/* ---- running a case -------------------------------------------------------------------------- */

typedef struct Outcome {
    const char *text;  /* what came out; NULL: the error */
    const char *input; /* canonical print of what went in */
    Err err;
} Outcome;

static void add_rewrites(void *data, const PassStep *step, const PassCounts *counts,
                         double seconds) {
    (void)step, (void)seconds;
    *(uint64_t *)data += counts->rewrites;
}

static bool run_pipeline(Runner *runner, Model *model, const Pipeline *pipeline, uint64_t *rewrites,
                         Err *err) {
    Arena scratch, whole; /* freed after each pass; after all */
    arena_init(&scratch, runner->trap);
    arena_init(&whole, runner->trap);
    PassCounts counts = {0};
    PassCtx ctx = {.model = model,
                   .scratch = &scratch,
                   .counts = &counts,
                   .statistics = statistics_memo_new(&whole)};
    PipelineOptions options = {.verify_each = true, .after = add_rewrites, .data = rewrites};
    bool ok = pipeline_run(pipeline, &ctx, &options, err);
    arena_free(&scratch);
    arena_free(&whole);
    return ok;
}

/* The second run of a pipeline whose passes all say that they are idempotent. */
static bool check_again(Runner *runner, const Case *the, Model *model, const Pipeline *pipeline,
                        const char *text) {
    Err err = {0};
    uint64_t rewrites = 0;
    for (size_t i = 0; i < pipeline->steps.count; i++)
        if (!pipeline->steps.items[i].info->idempotent) return true;
    if (!run_pipeline(runner, model, pipeline, &rewrites, &err))
        return case_failed(runner, the, "the second run", &err);
    const char *again = print_model(runner, model, &err);
    if (!again) return case_failed(runner, the, "the second run", &err);
    if (strcmp(text, again) != 0) {
        print_diff(runner->arena, text, again);
        return case_failed(runner, the, "a second run changes the model", NULL);
    }
    if (rewrites) return case_failed(runner, the, "a second run reports rewrites", NULL);
    return true;
}

/* False where a check failed (and was reported); errors of the case itself go to the outcome. */
static bool run_model(Runner *runner, const Case *the, Model *model, Outcome *outcome) {
    Err *err = &outcome->err;
    Pipeline pipeline = {0};
    const char *text = arena_copy(runner->arena, the->pipeline, the->pipeline_length);
    uint64_t rewrites = 0;
    outcome->input = print_model(runner, model, err);
    if (!outcome->input || !model_verify(model, runner->arena, err)) return true;
    if (!check_model(runner, the, model, "before")) return false;
    bool ran = pipeline_parse(&demi_passes, runner->arena, text, &pipeline, err) &&
               run_pipeline(runner, model, &pipeline, &rewrites, err);
    if (!ran) return true;
    outcome->text = print_model(runner, model, err);
    if (!outcome->text) return true;
    return check_model(runner, the, model, "after") &&
           check_again(runner, the, model, &pipeline, outcome->text);
}

/* The error as `--- error` names it. */
static const char *error_line(Runner *runner, const Err *err) {
    static const char *const codes[] = {"none", "model", "usage", "env"};
    char line[2048];
    err_format(err, line, sizeof line);
    return arena_printf(runner->arena, "%s: %s", codes[err->code], line);
}

static bool compare_error(Runner *runner, const Case *the, const Outcome *outcome) {
    if (outcome->text) return case_failed(runner, the, "no error where one is expected", NULL);
    const char *line = error_line(runner, &outcome->err);
    if (strlen(line) == the->error_length && !memcmp(line, the->error, the->error_length))
        return true;
    printf("-%.*s\n+%s\n", (int)the->error_length, the->error, line);
    return case_failed(runner, the, "another error than expected", NULL);
}

static bool compare_text(Runner *runner, const Case *the, const Outcome *outcome) {
    if (!outcome->text) return case_failed(runner, the, "an error", &outcome->err);
    const char *wanted = outcome->input;
    if (the->wanted == WANT_TEXT) {
        Err err = {0};
        Model *model =
            text_parse_model(the->expectation, the->expectation_length, runner->trap, &err);
        if (!model) return case_failed(runner, the, "the expected text", &err);
        wanted = print_model(runner, model, &err);
        model_free(model);
        if (!wanted) return case_failed(runner, the, "the expected text", &err);
    }
    if (!strcmp(wanted, outcome->text)) return true;
    print_diff(runner->arena, wanted, outcome->text);
    return case_failed(runner, the, "another result than expected", NULL);
}

static bool compare_outcome(Runner *runner, const Case *the, const Outcome *outcome) {
    switch (the->wanted) {
    case WANT_ERROR: return compare_error(runner, the, outcome);
    case WANT_TEXT:
    case WANT_UNCHANGED: return compare_text(runner, the, outcome);
    case WANT_NOTHING: break;
    }
    return case_failed(runner, the, "no expectation; --update writes one", NULL);
}

/* The case's new text, as --update writes it. Expectations that hold stay as they are written. */
static void put_case(Runner *runner, const Case *the, const Outcome *outcome, bool holds,
                     Buffer *file) {
    if (holds) {
        buffer_put(file, the->begin, (size_t)(the->end - the->begin));
        return;
    }
    runner->changed = true;
    buffer_put(file, the->begin, (size_t)(the->tail - the->begin));
    const char *text = outcome->text;
    if (!text)
        text = arena_printf(runner->arena, "--- error %s\n", error_line(runner, &outcome->err));
    else if (!strcmp(text, outcome->input))
        text = "--- unchanged\n";
    else
        buffer_put(file, "--- expect\n", strlen("--- expect\n"));
    buffer_put(file, text, strlen(text));
    if (!the->last) buffer_put(file, "\n", 1);
}

static void run_case(Runner *runner, const Case *the, Buffer *file) {
    Outcome outcome = {0};
    bool ok = true;
    Model *model = text_parse_model(the->input, the->input_length, runner->trap, &outcome.err);
    if (model) ok = run_model(runner, the, model, &outcome);
    model_free(model);
    bool holds = ok && compare_outcome(runner, the, &outcome);
    /* A check that failed is not a result to be written. */
    put_case(runner, the, &outcome, holds || !ok, file);
    if (ok && !runner->update) ok = holds;
    runner->cases++;
    if (!ok) runner->failed++;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* The next line that begins with `mark` at or after `at`; `end` where there is none. */
static const char *find_line(const char *at, const char *end, const char *mark) {
    size_t length = strlen(mark);
    while (at < end) {
        if ((size_t)(end - at) >= length && !memcmp(at, mark, length)) return at;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return end;
}

/* The rest of the line that begins at `at`, after `skip` bytes; *next is the line after it. */
static size_t line_rest(const char *at, const char *end, size_t skip, const char **next) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline ? newline : end;
    *next = newline ? newline + 1 : end;
    return (size_t)(stop - at) - skip;
}

static bool begins(const char *at, const char *end, const char *mark) {
    return (size_t)(end - at) >= strlen(mark) && !memcmp(at, mark, strlen(mark));
}

/* Takes apart the case between begin and end. */
static bool parse_case(const Runner *runner, Case *the) {
    static const char title[] = "=== ", pass[] = "--- pass ", error[] = "--- error ";
    const char *at;
    the->title = the->begin + strlen(title);
    the->title_length = line_rest(the->begin, the->end, strlen(title), &at);
    at = find_line(at, the->end, "--- ");
    if (!begins(at, the->end, pass)) return case_failed(runner, the, "no --- pass line", NULL);
    the->pipeline = at + strlen(pass);
    the->pipeline_length = line_rest(at, the->end, strlen(pass), &at);
    the->input = at;
    the->tail = find_line(at, the->end, "--- ");
    the->input_length = (size_t)(the->tail - at);
    if (the->tail == the->end) return true;
    line_rest(the->tail, the->end, 0, &the->expectation);
    the->expectation_length = (size_t)(the->end - the->expectation);
    if (begins(the->tail, the->end, "--- expect\n"))
        the->wanted = WANT_TEXT;
    else if (begins(the->tail, the->end, "--- unchanged"))
        the->wanted = WANT_UNCHANGED;
    else if (begins(the->tail, the->end, error))
        the->wanted = WANT_ERROR;
    else
        return case_failed(runner, the, "unknown --- line", NULL);
    the->error = the->tail + strlen(error);
    if (the->wanted == WANT_ERROR)
        the->error_length = line_rest(the->tail, the->end, strlen(error), &at);
    return true;
}

static bool write_file(const Runner *runner, const Buffer *file) {
    const char *path = arena_printf(runner->arena, "%s.new", runner->path);
    FILE *out = fopen(path, "w");
    bool ok = out && fwrite(file->text.items, 1, file->text.count, out) == file->text.count;
    if (out && fclose(out) != 0) ok = false;
    if (ok && rename(path, runner->path) == 0) return true;
    printf("FAILED %s: can't be written\n", runner->path);
    return false;
}

static void run_file(Runner *runner, const char *path) {
    Err err = {0};
    char *text = NULL;
    runner->path = path;
    runner->changed = false;
    const Source *source = source_open(runner->arena, path, INT32_MAX, &err);
    if (source) text = arena_alloc(runner->arena, (size_t)source->size + 1);
    if (!source || !source_read(source, 0, text, source->size, &err)) {
        char line[2048];
        err_format(&err, line, sizeof line);
        printf("FAILED %s\n", line);
        runner->failed++;
        return;
    }
    Buffer file = {.arena = runner->arena};
    const char *end = text + source->size, *at = find_line(text, end, "=== ");
    buffer_put(&file, text, (size_t)(at - text));
    if (at == end) {
        printf("FAILED %s: no cases\n", path);
        runner->failed++;
    }
    while (at < end) {
        const char *next;
        Case the = {.begin = at};
        line_rest(at, end, 0, &next);
        the.end = at = find_line(next, end, "=== ");
        the.last = at == end;
        if (parse_case(runner, &the))
            run_case(runner, &the, &file);
        else {
            buffer_put(&file, the.begin, (size_t)(the.end - the.begin));
            runner->failed++;
        }
    }
    if (runner->update && runner->changed && !write_file(runner, &file)) runner->failed++;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void run_folder(Runner *runner, const char *path) {
    VEC(const char *) names = {0};
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && !strcmp(entry->d_name + length - 4, ".txt"))
            VEC_PUSH(runner->arena, &names,
                     arena_printf(runner->arena, "%s/%s", path, entry->d_name));
    }
    if (folder) closedir(folder);
    if (names.count == 0) {
        printf("FAILED %s: no golden cases\n", path);
        runner->failed++;
        return;
    }
    qsort(names.items, names.count, sizeof *names.items, compare_names);
    for (size_t i = 0; i < names.count; i++) run_file(runner, names.items[i]);
}

int main(int argc, char **argv) {
    MemTrap trap;
    Arena arena;
    if (setjmp(trap.env)) {
        fprintf(stderr, "golden_test: out of memory\n");
        return 3;
    }
    arena_init(&arena, &trap);
    Runner runner = {.arena = &arena, .trap = &trap};
    int first = 1;
    if (argc > 1 && !strcmp(argv[1], "--update")) {
        runner.update = true;
        first = 2;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: golden_test [--update] FILE|FOLDER ...\n");
        return 2;
    }
    for (int i = first; i < argc; i++) {
        struct stat status;
        if (stat(argv[i], &status) == 0 && S_ISDIR(status.st_mode))
            run_folder(&runner, argv[i]);
        else
            run_file(&runner, argv[i]);
    }
    printf("%u cases, %u failed\n", runner.cases, runner.failed);
    arena_free(&arena);
    return runner.failed ? 1 : 0;
}
