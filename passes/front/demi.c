// SPDX-License-Identifier: Apache-2.0
/* The library's front: every function of demi.h that touches a model enters here. Each puts its
 * arguments into a structure and calls call_run (demi_call.h) with a body. */
#include "demi.h"

#include <stdio.h>
#include <string.h>

#include "background.h"
#include "compile_text.h"
#include "demi_call.h"
#include "demi_front.h"
#include "demi_passes.h"
#include "foreign_file.h"
#include "model_save.h"
#include "node_order.h"
#include "outfile.h"
#include "onnx_export.h"
#include "onnx_import.h"
#include "ops.h"
#include "pass.h"
#include "passes.h"
#include "policy.h"
#include "report.h"
#include "simplify_text.h"
#include "repair.h"
#include "strict_check.h"
#include "text.h"
#include "text_distance.h"
#include "verify.h"
#include "work_progress.h"

enum { NEWEST_OPSET = OPS_OPSET_ONNX, NEWEST_IR = 14 };

struct DemiModel {
    Arena arena; /* owns this and input bytes that had to be read whole */
    Model *model;
    const char *gone; /* what became of it that leaves demi_free alone; NULL: it is whole */
};

const char *demi_version(void) {
    return DEMI_VERSION_STRING;
}

uint32_t demi_version_number(void) {
    return DEMI_VERSION_MAJOR * 10000 + DEMI_VERSION_MINOR * 100 + DEMI_VERSION_PATCH;
}

int64_t demi_newest_opset(void) {
    return NEWEST_OPSET;
}

int64_t demi_newest_ir(void) {
    return NEWEST_IR;
}

bool demi_front_is_whole(const DemiModel *model, Err *err) {
    if (!model->gone) return true;
    err_set(err, ERR_USAGE, "%s", model->gone);
    err_hint(err, "free it, and load it again");
    return false;
}

const Model *demi_front_model(const DemiModel *model) {
    return model->model;
}

Model *demi_front_lend(DemiModel *model, MemTrap *trap) {
    model->model->arena.trap = trap;
    return model->model;
}

/* Lets the model's memory jump to this call's trap while it lasts. */
static void call_lend(Call *call, DemiModel *model) {
    demi_front_lend(model, &call->trap);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct LoadArgs {
    DemiLoadOptions options;
    const char *path; /* or */
    int fd;           /* if not -1, or */
    DemiReadFn read;  /* or */
    void *user;
    const void *bytes;
    size_t size;
    Arena arena; /* becomes the handle's */
    DemiModel *handle;
} LoadArgs;

static ImportOptions import_options(const DemiLoadOptions *options) {
    ImportOptions import = {.data_root = options->data_root,
                            .allow_hardlinks = options->allow_hardlinks};
    if (options->data_size && options->data_read)
        import.data = (ExternalReader){options->data_size,
                                       { options->data_read,
                                         options->data_user }};
    return import;
}

static const char *load_name(const LoadArgs *args) {
    if (args->options.name) return args->options.name;
    return args->path ? args->path : "model";
}

/* Text or protobuf, all of it in memory that stays as long as the handle. */
static Model *load_bytes(Call *call, const LoadArgs *args, const void *bytes, size_t size) {
    const char *name = load_name(args);
    Model *model;
    if (text_is_likely(bytes, size)) {
        model = text_parse_model(bytes, size, &call->trap, &call->err);
    } else {
        ImportOptions options = import_options(&args->options);
        ImportBytes input = {.bytes = bytes, .size = size, .name = name};
        model = onnx_import_memory(&input, &options, &call->trap, &call->err);
    }
    if (model) return model;
    foreign_file_explain(source_from_memory(&call->scratch, bytes, size, name), &call->err);
    err_file(&call->err, name);
    return NULL;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Decides by name, else by the first bytes. The file is opened again by the importer, which keeps
 * it open for its weights. */
static Model *load_path(Call *call, LoadArgs *args) {
    enum { FIRST_BYTES = 512 };
    Source *source = source_open(&args->arena, args->path, INT32_MAX, &call->err);
    if (!source) return NULL;
    if (source->memory) return load_bytes(call, args, source->memory, (size_t)source->size);
    unsigned char first[FIRST_BYTES];
    size_t count = source->size < FIRST_BYTES ? (size_t)source->size : FIRST_BYTES;
    if (!source_read(source, 0, first, count, &call->err)) return NULL;
    if (!ends_with(args->path, ".onnxtxt") && !text_is_likely(first, count)) {
        ImportOptions options = import_options(&args->options);
        Model *model = onnx_import_file(args->path, &options, &call->trap, &call->err);
        if (!model) foreign_file_explain(source, &call->err);
        return model;
    }
    if (source->size > INT32_MAX) {
        err_set(&call->err, ERR_MODEL, "text of more than 2^31 - 1 bytes");
        err_file(&call->err, args->path);
        return NULL;
    }
    char *text = arena_alloc(&call->scratch, (size_t)source->size + 1);
    if (!source_read(source, 0, text, source->size, &call->err)) return NULL;
    Model *model = text_parse_model(text, (size_t)source->size, &call->trap, &call->err);
    if (model) return model;
    foreign_file_explain(source, &call->err);
    err_file(&call->err, load_name(args));
    return NULL;
}

static Model *load_callback(Call *call, LoadArgs *args) {
    enum { STEP = 1 << 16 };
    VEC(unsigned char) bytes = {0};
    int64_t got = 0;
    do {
        while (bytes.capacity - bytes.count < STEP)
            bytes.items = vec_grow(&args->arena, bytes.items, &bytes.capacity, 1);
        got = args->read(args->user, bytes.items + bytes.count, STEP);
        if (got > 0 && got <= STEP) bytes.count += (size_t)got;
    } while (got > 0 && got <= STEP && bytes.count <= INT32_MAX);
    if (got != 0) {
        err_set(&call->err, got < 0 ? ERR_ENV : ERR_MODEL,
                got < 0 ? "the read callback failed" : "more than 2^31 - 1 bytes");
        err_file(&call->err, load_name(args));
        return NULL;
    }
    return load_bytes(call, args, bytes.items, bytes.count);
}

static Model *load_descriptor(Call *call, LoadArgs *args) {
    Source *source =
        source_read_all(&args->arena, args->fd, load_name(args), INT32_MAX, &call->err);
    return source ? load_bytes(call, args, source->memory, (size_t)source->size) : NULL;
}

static void load_body(Call *call, void *data) {
    LoadArgs *args = data;
    arena_init(&args->arena, &call->trap);
    DemiModel *handle = ARENA_NEW(&args->arena, DemiModel);
    if (args->path)
        handle->model = load_path(call, args);
    else if (args->fd >= 0)
        handle->model = load_descriptor(call, args);
    else if (args->read)
        handle->model = load_callback(call, args);
    else
        handle->model = load_bytes(call, args, args->bytes, args->size);
    if (!handle->model) return;
    handle->arena = args->arena; /* nothing is allocated from it any more */
    args->handle = handle;
}

static DemiStatus load(LoadArgs *args, const DemiLoadOptions *options, DemiModel **model,
                       DemiError *error) {
    Call call = {0};
    args->options = (DemiLoadOptions)DEMI_LOAD_OPTIONS_INIT;
    options_copy(&call, &args->options, sizeof args->options, options);
    const unsigned piece = progress_begin("reading the model", 0, PROGRESS_PARTS);
    DemiStatus status = call_run(&call, load_body, args, error);
    progress_end(piece);
    if (!args->handle) arena_free(&args->arena);
    *model = args->handle;
    return status;
}

DemiStatus demi_load_file(const char *path, const DemiLoadOptions *options, DemiModel **model,
                          DemiError *error) {
    LoadArgs args = {.path = path, .fd = -1};
    return load(&args, options, model, error);
}

DemiStatus demi_load_fd(int fd, const DemiLoadOptions *options, DemiModel **model,
                        DemiError *error) {
    LoadArgs args = {.fd = fd};
    return load(&args, options, model, error);
}

DemiStatus demi_load_callback(DemiReadFn read, void *user, const DemiLoadOptions *options,
                              DemiModel **model, DemiError *error) {
    LoadArgs args = {.fd = -1, .read = read, .user = user};
    return load(&args, options, model, error);
}

DemiStatus demi_load_memory(const void *bytes, size_t size, const DemiLoadOptions *options,
                            DemiModel **model, DemiError *error) {
    LoadArgs args = {.fd = -1, .bytes = bytes, .size = size};
    return load(&args, options, model, error);
}

void demi_free(DemiModel *model) {
    if (!model) return;
    model_free(model->model);
    Arena arena = model->arena; /* the handle itself lies in it */
    arena_free(&arena);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A sink that remembers that its callback has failed, since a TextSink can't say so. */
typedef struct Output {
    DemiWriteFn write;
    void *user;
    bool failed;
} Output;

static void output_text(void *data, const char *text, size_t size) {
    Output *output = data;
    if (!output->failed && size) output->failed = !output->write(output->user, text, size);
}

/* A DemiMapFn of what the same callback writes. */
typedef struct Artifact {
    Output output;
    DemiMapFn *map;
} Artifact;

static bool output_map(void *data, uint64_t size, const MappedFile *files, size_t count, Err *err) {
    const Artifact *artifact = data;
    return artifact->map(artifact->output.user, size, files, count, err);
}

static bool output_bytes(void *data, const void *bytes, size_t size, Err *err) {
    Output *output = data;
    if (output->write(output->user, bytes, size)) return true;
    return err_set(err, ERR_ENV, "the artifact callback failed");
}

typedef struct SaveArgs {
    DemiModel *handle;
    DemiSaveOptions options;
    const char *path; /* or */
    DemiWriteFn write;
    void *user;
    bool full;
} SaveArgs;

static bool save_is_text(const SaveArgs *args) {
    switch (args->options.format) {
    case DEMI_FORMAT_ONNX: return false;
    case DEMI_FORMAT_TEXT: return true;
    case DEMI_FORMAT_BY_NAME: break;
    }
    return args->path && ends_with(args->path, ".onnxtxt");
}

static void print_body(Call *call, void *data) {
    SaveArgs *args = data;
    Output output = {.write = args->write, .user = args->user};
    TextSink sink = {.write = output_text, .data = &output};
    call_lend(call, args->handle);
    if (!text_print_model(args->handle->model, args->full ? TEXT_FULL : TEXT_SHORT, &sink,
                          &call->err))
        return;
    if (output.failed) err_set(&call->err, ERR_ENV, "the write callback failed");
}

typedef struct TextFile {
    OutFile *file;
    Err *err;
} TextFile;

static bool write_text_file(void *user, const void *bytes, size_t size) {
    TextFile *text = user;
    return outfile_write(text->file, bytes, size, text->err);
}

/* Text is written like a model: whole or not at all. */
static void save_text(Call *call, SaveArgs *args) {
    TextFile text = {.err = &call->err};
    args->full = true;
    if (args->path) {
        text.file = outfile_create(&call->scratch, args->path, &call->err);
        if (!text.file) return;
        args->write = write_text_file;
        args->user = &text;
    }
    print_body(call, args);
    if (text.file && call->err.code == ERR_NONE) outfile_commit(text.file, &call->err);
}

/* A ByteSink to the caller's callback. */
static bool write_out(void *data, const void *bytes, size_t size, Err *err) {
    Output *output = data;
    if (size && !output->write(output->user, bytes, size))
        return err_set(err, ERR_ENV, "the write callback failed");
    return true;
}

/* Weights to one callback, then the model to the other. */
static void save_parts(Call *call, const SaveArgs *args) {
    const DemiSaveOptions *given = &args->options;
    const ExportOptions options = {.external = true, .data_name = given->data_name};
    Output model = {.write = args->write, .user = args->user},
           data = {.write = given->data, .user = given->data_user};
    ExportPlan *plan = onnx_export_plan(args->handle->model, &options, &call->scratch, &call->err);
    if (plan && onnx_export_data(plan, &(ByteSink){.write = write_out, .data = &data}, &call->err))
        onnx_export_model(plan, NULL, &(ByteSink){.write = write_out, .data = &model}, &call->err);
}

static void save_body(Call *call, void *data) {
    SaveArgs *args = data;
    call_lend(call, args->handle);
    if (save_is_text(args)) {
        save_text(call, args);
    } else if (args->path) {
        SaveOptions options = {0};
        model_save(args->handle->model, args->path, &options, &call->err);
    } else if (!args->options.data_name != !args->options.data) {
        err_set(&call->err, ERR_USAGE, "external data needs both a name and a callback");
    } else if (args->options.data) {
        save_parts(call, args);
    } else {
        Output output = {.write = args->write, .user = args->user};
        ByteSink sink = {.write = write_out, .data = &output};
        onnx_export(args->handle->model, &call->scratch, &sink, &call->err);
    }
}

DemiStatus demi_save_file(DemiModel *model, const char *path, const DemiSaveOptions *options,
                          DemiError *error) {
    Call call = {0};
    SaveArgs args = {.handle = model, .path = path, .options = DEMI_SAVE_OPTIONS_INIT};
    options_copy(&call, &args.options, sizeof args.options, options);
    demi_front_is_whole(model, &call.err);
    return call_run(&call, save_body, &args, error);
}

DemiStatus demi_save_callback(DemiModel *model, DemiWriteFn write, void *user,
                              const DemiSaveOptions *options, DemiError *error) {
    Call call = {0};
    SaveArgs args = {.handle = model, .write = write, .user = user};
    args.options = (DemiSaveOptions)DEMI_SAVE_OPTIONS_INIT;
    options_copy(&call, &args.options, sizeof args.options, options);
    demi_front_is_whole(model, &call.err);
    return call_run(&call, save_body, &args, error);
}

DemiStatus demi_print(DemiModel *model, bool full, DemiWriteFn write, void *user,
                      DemiError *error) {
    Call call = {0};
    SaveArgs args = {.handle = model, .write = write, .user = user, .full = full};
    demi_front_is_whole(model, &call.err);
    return call_run(&call, print_body, &args, error);
}

/* ---- checking and rewriting ------------------------------------------------------------------ */

static void check_body(Call *call, void *data) {
    DemiModel *handle = data;
    call_lend(call, handle);
    strict_check(handle->model, STRICT_ALL, &call->scratch, &call->err);
}

DemiStatus demi_check(DemiModel *model, DemiError *error) {
    Call call = {0};
    demi_front_is_whole(model, &call.err);
    return call_run(&call, check_body, model, error);
}

static bool opset_is_known(const Model *model, const OpsetImports *opsets, Err *err) {
    int64_t version = opset_version(opsets, NULL);
    if (version <= NEWEST_OPSET && model->ir_version <= NEWEST_IR) return true;
    err_set(err, ERR_MODEL, "the model is newer than this demi knows");
    err_expected(err, "opset up to %d and IR version up to %d", NEWEST_OPSET, NEWEST_IR);
    err_actual(err, "opset %lld and IR version %lld", (long long)version,
               (long long)model->ir_version);
    err_hint(err, "show, check and opt read such models; a newer demi may convert it");
    return false;
}

static bool model_is_known(const Model *model, Err *err) {
    if (!opset_is_known(model, &model->opsets, err)) return false;
    for (size_t i = 0; i < model->functions.count; i++)
        if (!opset_is_known(model, &model->functions.items[i]->opsets, err)) return false;
    return true;
}

typedef struct RunArgs {
    DemiModel *handle;
    const char *text;
    const char *remark; /* of the whole run, NULL: none */
    DemiRunOptions options;
    DemiReport *report; /* NULL: not wanted */
    Call *call;
    Arena passes; /* scratch of the passes, emptied after each */
    Pipeline pipeline;
    size_t done;
    DemiMapFn *map;    /* beside options.artifact; NULL: it holds all */
    const char *until; /* the pass to end behind; NULL: the last one */
    size_t rewrites;   /* of that */
    ChannelData *channels;
    bool sketch, unchecked, spends;
} RunArgs;

/* Both false returns leave through the trap: a callback between passes can't fail otherwise. */
static void print_after(RunArgs *args, const char *pass) {
    const DemiRunOptions *options = &args->options;
    Output output = {.write = options->text, .user = options->text_user};
    TextSink sink = {.write = output_text, .data = &output};
    Err *err = &args->call->err;
    char line[128];
    int length = snprintf(line, sizeof line, "# after %s\n", pass);
    output_text(&output, line, (size_t)length);
    bool ok = text_print_model(args->handle->model, TEXT_SHORT, &sink, err);
    if (ok && output.failed) ok = err_set(err, ERR_ENV, "the text callback failed");
    if (!ok) arena_exhausted(&args->passes);
}

static bool prints_after(const RunArgs *args, const char *pass) {
    const char *wanted = args->options.print_after;
    return wanted && args->options.text && (!strcmp(wanted, "all") || !strcmp(wanted, pass));
}

/* A name that is not a pass of the pipeline would print nothing, silently. */
static bool print_after_is_known(const RunArgs *args, Err *err) {
    const char *wanted = args->options.print_after;
    if (!wanted || !strcmp(wanted, "all")) return true;
    NearestName nearest = nearest_name_of(wanted);
    for (size_t i = 0; i < args->pipeline.steps.count; i++) {
        const char *name = args->pipeline.steps.items[i].info->name;
        if (!strcmp(name, wanted)) return true;
        nearest_name_try(&nearest, name);
    }
    err_set(err, ERR_USAGE, "the pipeline has no pass '%s' to print after", wanted);
    if (nearest.best) err_hint(err, "did you mean '%s'?", nearest.best);
    return false;
}

static void after_step(void *data, const PassStep *step, const PassCounts *counts, double seconds) {
    RunArgs *args = data;
    const DemiRunOptions *options = &args->options;
    if (args->report) report_take_pass(args->report, step->info->name, counts->rewrites, seconds);
    args->done++;
    args->rewrites = counts->rewrites;
    if (prints_after(args, step->info->name)) print_after(args, step->info->name);
    if (!options->progress) return;
    if (options->progress(options->progress_user, step->info->name, args->done,
                          args->pipeline.steps.count))
        return;
    args->call->cancelled = true;
    arena_exhausted(&args->passes); /* the one way out of the middle of a pipeline */
}

typedef bool (*Check)(Model *model, Arena *scratch, Err *err);

static bool verify(Model *model, Arena *scratch, Err *err) {
    return model_verify(model, scratch, err);
}

static bool check_all(Model *model, Arena *scratch, Err *err) {
    return strict_check(model, STRICT_SHAPES, scratch, err);
}

static bool check_types(Model *model, Arena *scratch, Err *err) {
    return strict_check(model, 0, scratch, err);
}

static bool run_steps(Call *call, RunArgs *args, PassCounts *counts) {
    Output output = {.write = args->options.text, .user = args->options.text_user};
    Artifact artifact = {{.write = args->options.artifact, .user = args->options.artifact_user},
                         args->map};
    TextSink sink = {.write = output_text, .data = &output};
    ArtifactSink bytes = {
        .write = output_bytes, .map = args->map ? output_map : NULL, .data = &artifact};
    PassCtx ctx = {.model = args->handle->model,
                   .scratch = &args->passes,
                   .text = output.write ? &sink : NULL,
                   .artifact = artifact.output.write ? &bytes : NULL,
                   .counts = counts,
                   .statistics = statistics_memo_new(&call->scratch),
                   .sketch = args->sketch,
                   .rounding = args->options.rounded ? &args->options.rounded->rounding : NULL,
                   .channels = args->channels,
                   .spends = args->spends};
    PipelineOptions options = {.verify_each = args->options.verify_each,
                               .check = args->unchecked ? NULL : check_all,
                               .after = after_step,
                               .data = args};
    if (!pipeline_run(&args->pipeline, &ctx, &options, &call->err)) return false;
    return !output.failed || err_set(&call->err, ERR_ENV, "the text callback failed");
}

/* Of the model behind the passes, which was valid before them. */
static Check check_after(const Pipeline *pipeline) {
    for (size_t i = 0; i < pipeline->steps.count; i++)
        if (!pipeline->steps.items[i].info->keeps_shapes) return check_all;
    return check_types;
}

static bool is_sound(Call *call, Model *model, Check check) {
    Arena *within = arena_child(&call->scratch);
    call->err = (Err){0};
    const bool ok = check(model, within, &call->err);
    arena_free(within);
    return ok;
}

/* A model that is wrong in what other tools write, and run, is put right: the order of its nodes, and what it
 * declares that its operators do not give. */
static bool sound_once_repaired(Call *call, Model *model, Check check, PassCounts *counts,
                                const char *when) {
    if (is_sound(call, model, check)) return true;
    PassCtx ctx = {.model = model, .scratch = arena_child(&call->scratch), .counts = counts};
    const bool ordered = model_order_nodes(model, ctx.scratch);
    call->err = (Err){0};
    const bool formed = model_verify(model, ctx.scratch, &call->err);
    if (formed && ordered)
        pass_remark(counts, &model->arena,
                    arena_printf(&model->arena, "nodes were out of order: sorted, %s", when));
    if (formed && check != verify) repair_model(&ctx, when);
    arena_free(ctx.scratch);
    return formed && is_sound(call, model, check);
}

static bool has_step(const Pipeline *pipeline, const char *pass) {
    for (size_t i = 0; i < pipeline->steps.count; i++)
        if (strcmp(pipeline->steps.items[i].info->name, pass) == 0) return true;
    return false;
}

/* Nothing is run where there is no such pass. */
static void end_behind(Pipeline *pipeline, const char *pass) {
    size_t count = pipeline->steps.count;
    while (count && strcmp(pipeline->steps.items[count - 1].info->name, pass) != 0) count--;
    pipeline->steps.count = count;
}

/* Passes rely on a valid model, and nothing invalid is written: both ends are checked, by the rules of `check`.
 * A pipeline without passes takes any model as it is. */
static bool run_reported(Call *call, RunArgs *args) {
    Model *model = args->handle->model;
    DemiReport *report = args->report;
    PassCounts counts = {0};
    if (report) report_take_before(report, model);
    if (report && args->options.runs_here) report_runs_here(report);
    if (args->pipeline.steps.count == 0) {
        if (report) report_take_after(report, model, &counts);
        return true;
    }
    Err ignored = {0};
    args->unchecked = args->options.unchecked || !model_is_known(model, &ignored);
    const Check before = args->unchecked ? verify : check_all;
    const Check after = args->unchecked ? verify : check_after(&args->pipeline);
    args->handle->gone = "the model was left half rewritten by a call that failed or was cancelled";
    if (!sound_once_repaired(call, model, before, &counts, "before the passes")) {
        args->handle->gone = NULL; /* no pass has run */
        return false;
    }
    if (!run_steps(call, args, &counts)) return false;
    if (args->remark) pass_remark(&counts, &model->arena, args->remark);
    if (!sound_once_repaired(call, model, after, &counts, "after the passes")) {
        err_hint(&call->err, has_step(&args->pipeline, "set-shapes")
                                 ? "the given sizes do not fit the model"
                                 : "the passes left the model invalid; please report this");
        return false;
    }
    if (!model_check_nesting(model, &call->scratch, &call->err))
        return false; /* it can't be written */
    if (report) report_take_after(report, model, &counts);
    args->handle->gone = NULL;
    return true;
}

static void run_body(Call *call, void *data) {
    RunArgs *args = data;
    call_lend(call, args->handle);
    arena_init(&args->passes, &call->trap);
    if (!pipeline_parse(demi_passes_table(args->options.passes), &call->scratch, args->text,
                        &args->pipeline, &call->err) ||
        !pipeline_check(&args->pipeline, &call->err) || !print_after_is_known(args, &call->err))
        return;
    if (args->until) end_behind(&args->pipeline, args->until);
    const Source *source = args->handle->model->source;
    if (!run_reported(call, args) && source) err_file(&call->err, source->name);
}

static void report_body(Call *call, void *data) {
    DemiReport **report = data;
    *report = report_new(&call->trap);
}

/* Runs args->text; *report gets a new report where report is not NULL. */
static DemiStatus run(Call *call, RunArgs *args, DemiReport **report, DemiError *error) {
    if (report) *report = NULL;
    args->call = call;
    demi_front_is_whole(args->handle, &call->err);
    if (report && call_run(call, report_body, &args->report, error) != DEMI_OK)
        return (DemiStatus)call->err.code;
    DemiStatus status = call_run(call, run_body, args, error);
    arena_free(&args->passes);
    if (status == DEMI_OK && report)
        *report = args->report;
    else
        demi_report_free(args->report);
    return status;
}

DemiStatus demi_run_pipeline(DemiModel *model, const char *pipeline, const DemiRunOptions *options,
                             DemiReport **report, DemiError *error) {
    Call call = {0};
    RunArgs args = {.handle = model, .text = pipeline, .options = DEMI_RUN_OPTIONS_INIT};
    options_copy(&call, &args.options, sizeof args.options, options);
    return run(&call, &args, report, error);
}

DemiStatus demi_front_compile(DemiModel *model, const DemiCompileOptions *options,
                              const DemiPlanSink *sink, DemiError *error) {
    Call call = {0};
    static const char frozen[] = "freeze-inputs,";
    char text[COMPILE_TEXT + sizeof frozen];
    DemiCompileOptions known = DEMI_COMPILE_OPTIONS_INIT;
    RunArgs args = {.handle = model, .text = text, .options = DEMI_RUN_OPTIONS_INIT};
    options_copy(&call, &known, sizeof known, options);
    args.options.artifact = sink->write;
    args.options.artifact_user = sink->user;
    args.map = sink->map;
    args.spends = true;
    args.options.unchecked = true; /* what runs is a plan, and kernels check what they are given */
    if (known.numerics > DEMI_NUMERICS_FAITHFUL) {
        err_set(&call.err, ERR_USAGE, "unknown numerics %u", (unsigned)known.numerics);
        known.numerics = DEMI_NUMERICS_FAITHFUL;
    }
    if ((unsigned)known.isa > DEMI_ISA_AVX512) {
        err_set(&call.err, ERR_USAGE, "unknown instruction set %u", (unsigned)known.isa);
        known.isa = DEMI_ISA_NONE;
    }
    compile_text(&known, text);
    const Model *m = demi_front_model(model);
    if (m->ir_version < 4 && freeze_can(m)) {
        memmove(text + strlen(frozen), text, strlen(text) + 1);
        memcpy(text, frozen, strlen(frozen));
    }
    const DemiStatus status = run(&call, &args, NULL, error);
    if (status == DEMI_OK) model->gone = "the model was already compiled, which consumed it";
    return status;
}

DemiStatus demi_compile(DemiModel *model, const DemiCompileOptions *options, DemiWriteFn write,
                        void *user, DemiError *error) {
    const DemiPlanSink sink = {.write = write, .user = user};
    return demi_front_compile(model, options, &sink, error);
}

/* ---- convert --------------------------------------------------------------------------------- */

/* The pipeline of these options; NULL with err set where they are wrong. `measures`: channels are measured for it.
 * *remark is what is said of what it makes. */
static const char *convert_text(const DemiConvertOptions *options, bool measures, Arena *arena,
                                const char **remark, Err *err) {
    ConvertPolicy policy;
    if (!policy_from_options(&policy, options, arena, err)) return NULL;
    policy.measures = measures;
    *remark = policy_remark(&policy);
    const char *before = options->before ? options->before : "";
    const char *after = options->after ? options->after : "";
    return arena_printf(arena, "%s%s%s%s%s", before, before[0] ? "," : "", policy_pipeline(&policy),
                        after[0] ? "," : "", after);
}

typedef struct ConvertArgs {
    RunArgs run;
    DemiConvertOptions options;
    const char *text; /* owned by arena */
    Arena arena;
} ConvertArgs;

static void convert_text_body(Call *call, void *data) {
    ConvertArgs *args = data;
    arena_init(&args->arena, &call->trap);
    if (!model_is_known(args->run.handle->model, &call->err)) {
        const Source *source = args->run.handle->model->source;
        if (source) err_file(&call->err, source->name);
        return;
    }
    const char *own = convert_text(&args->options, args->run.channels != NULL, &args->arena,
                                   &args->run.remark, &call->err);
    const DemiConvertOptions *o = &args->options;
    PipelineText text = {.arena = &args->arena};
    freeze_put(&text, args->run.handle->model, &(Freeze){o->freeze_inputs, o->fed, o->fed_count});
    if (own && own[0]) pipeline_put_pass(&text, own);
    args->text = own ? pipeline_text(&text) : NULL;
}

static DemiStatus convert(ConvertArgs *args, const DemiConvertOptions *options, DemiReport **report,
                          DemiError *error) {
    Call call = {0};
    if (report) *report = NULL;
    options_copy(&call, &args->options, sizeof args->options, options);
    options_copy(&call, &args->run.options, sizeof args->run.options, args->options.run);
    demi_front_is_whole(args->run.handle, &call.err);
    DemiStatus status = call_run(&call, convert_text_body, args, error);
    args->run.text = args->text;
    if (status == DEMI_OK) status = run(&call, &args->run, report, error);
    arena_free(&args->arena);
    return status;
}

#define CONVERT_ARGS_INIT(model)                                                                   \
    {                                                                                              \
        .run = {.handle = (model), .options = DEMI_RUN_OPTIONS_INIT},                              \
        .options = DEMI_CONVERT_OPTIONS_INIT                                                       \
    }

DemiStatus demi_convert(DemiModel *model, const DemiConvertOptions *options, DemiReport **report,
                        DemiError *error) {
    ConvertArgs args = CONVERT_ARGS_INIT(model);
    return convert(&args, options, report, error);
}

DemiStatus demi_front_sketch(DemiModel *model, const DemiConvertOptions *options,
                             DemiError *error) {
    ConvertArgs args = CONVERT_ARGS_INIT(model);
    args.run.sketch = true;
    return convert(&args, options, NULL, error);
}

DemiStatus demi_front_equalize(DemiModel *model, const DemiConvertOptions *options,
                               ChannelData *data, bool *changed, DemiError *error) {
    ConvertArgs args = CONVERT_ARGS_INIT(model);
    args.run.until = "equalize";
    args.run.channels = data;
    const DemiStatus status = convert(&args, options, NULL, error);
    *changed = status == DEMI_OK && args.run.rewrites > 0;
    return status;
}

/* ---- options as text ------------------------------------------------------------------------- */

typedef struct TextArgs {
    DemiConvertOptions options;
    bool json; /* the policy, else the pipeline */
    char *buffer;
    size_t size, length;
} TextArgs;

static void options_text_body(Call *call, void *data) {
    TextArgs *args = data;
    ConvertPolicy policy;
    const char *text = NULL, *remark;
    if (!args->json)
        text = convert_text(&args->options, false, &call->scratch, &remark, &call->err);
    else if (policy_from_options(&policy, &args->options, &call->scratch, &call->err))
        text = policy_write_json(&policy, &call->err);
    if (!text) return;
    args->length = strlen(text);
    if (args->size == 0) return;
    size_t fits = args->length < args->size ? args->length : args->size - 1;
    memcpy(args->buffer, text, fits);
    args->buffer[fits] = '\0';
}

static size_t options_text(TextArgs *args, const DemiConvertOptions *options, DemiError *error) {
    Call call = {0};
    args->options = (DemiConvertOptions)DEMI_CONVERT_OPTIONS_INIT;
    options_copy(&call, &args->options, sizeof args->options, options);
    call_run(&call, options_text_body, args, error);
    return args->length;
}

size_t demi_convert_pipeline(const DemiConvertOptions *options, char *buffer, size_t size,
                             DemiError *error) {
    TextArgs args = {.buffer = buffer, .size = size};
    return options_text(&args, options, error);
}

size_t demi_convert_policy(const DemiConvertOptions *options, char *buffer, size_t size,
                           DemiError *error) {
    TextArgs args = {.buffer = buffer, .size = size, .json = true};
    return options_text(&args, options, error);
}

/* ---- reports --------------------------------------------------------------------------------- */

typedef struct DescribeArgs {
    DemiModel *handle;
    DemiReport *report;
} DescribeArgs;

static void describe_body(Call *call, void *data) {
    DescribeArgs *args = data;
    args->report = report_new(&call->trap);
    report_take_before(args->report, args->handle->model);
    report_take_after(args->report, args->handle->model, NULL);
}

DemiStatus demi_describe(DemiModel *model, DemiReport **report, DemiError *error) {
    Call call = {0};
    DescribeArgs args = {.handle = model};
    demi_front_is_whole(model, &call.err);
    DemiStatus status = call_run(&call, describe_body, &args, error);
    if (status != DEMI_OK) demi_report_free(args.report);
    *report = status == DEMI_OK ? args.report : NULL;
    return status;
}
