// SPDX-License-Identifier: Apache-2.0
/* demi train: trains a model that has a training_info. The library trains (demi_train.h); here are words
 * and files. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "demi_front.h"
#include "demi_train.h"
#include "interrupt.h"
#include "npy.h"
#include "outputs.h"
#include "progress_line.h"
#include "run_options.h"
#include "source.h"
#include "training_marks.h"
#include "value_io.h"

static const ArgumentRow arguments[] = {
    {"IN", "The model, with a training_info; 'demi make-training' adds one."},
    {"OUT", "The trained model to write, without its training_info; or use -o OUT."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"output", 'o', OPTION_ROW_VALUE, "OUT", NULL, "The trained model to write."},
    OPTION_PLACE,
    {"data", 'd', OPTION_ROW_VALUE, "FILE.npz", NULL,
     "Samples: one array per input of the model and of its training, with the input's name; the "
     "first axis is the samples. Or a folder with NAME.npy. Integers and floating-point numbers "
     "are converted to the input's type."},
    OPTION_HEADING("Limits"),
    {"steps", 0, OPTION_ROW_VALUE, "N", NULL,
     "Number of steps, including those of a checkpoint (default: one epoch)."},
    {"epochs", 0, OPTION_ROW_VALUE, "N", NULL,
     "In place of --steps: the number of times to go through all samples."},
    {"batch", 'b', OPTION_ROW_VALUE, "N", NULL,
     "Samples per step (default: as the model says, else 32). An incomplete last batch of an epoch "
     "is not used."},
    OPTION_HEADING("How"),
    {"rate", 0, OPTION_ROW_VALUE, "R", NULL,
     "Learning rate, in place of the initializer learning_rate."},
    {"seed", 0, OPTION_ROW_VALUE, "N", NULL,
     "Seed for the order of samples and for random operators (default 0)."},
    {"keep-weights", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Start from the model's weights, even if its training has an initialization."},
    {"in-order", 0, OPTION_ROW_FLAG, NULL, NULL, "Do not shuffle the samples."},
    {"numerics", 0, OPTION_ROW_VALUE, "MODE", "fast faithful",
     "fast (default), or faithful: every 16-bit result is rounded once, as on devices that compute "
     "in 16-bit."},
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,
     "Number of threads (default: all available CPUs)."},
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,
     "Memory limit for values and workspace, such as 500M or 2G."},
    OPTION_HEADING("Checkpoints"),
    {"checkpoint", 0, OPTION_ROW_VALUE, "FILE", NULL,
     "File for the current model with its training_info. If it exists, training resumes from it, "
     "with the same bits as uninterrupted training."},
    {"every", 0, OPTION_ROW_VALUE, "N", NULL, "Number of steps between checkpoints (default 100)."},
    OPTION_QUIET,
    OPTION_DATA_ROOT,
    OPTION_HARDLINKS,
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

enum { EVERY = 100, LINES = 20 }; /* LINES: about so many are printed */

typedef struct Job {
    Program *program;
    const Parsed *parsed;
    const char *input, *output, *checkpoint;
    OutFile *file;
    DemiTrainOptions how;
    DemiCompileOptions compile;
    DemiContextOptions context;
    double rate;
    DemiModel *model;
    bool went_on, quiet;
    Err save_error;
} Job;

/* ---- data ------------------------------------------------------------------------------------ */

typedef struct Arrays {
    VEC(const char *) names;
    VEC(DemiData) items;
} Arrays;

static bool add_array(Arena *arena, Arrays *arrays, const char *name, NpyBytes bytes, Err *err) {
    DemiData data = DEMI_DATA_INIT;
    NpyArray array;
    if (!npy_open(arena, bytes, 0, &array, err) ||
        !npy_read(arena, &array, (NpyRows){0, 0}, &data, err))
        return false;
    VEC_PUSH(arena, &arrays->names, name);
    VEC_PUSH(arena, &arrays->items, data);
    return true;
}

static bool read_archive(Arena *arena, const char *path, Arrays *arrays, Err *err) {
    NpzMembers members = {0};
    const Source *source = source_open(arena, path, 0, err);
    bool ok = source && npz_list(arena, source, &members, err);
    for (size_t i = 0; ok && i < members.count; i++) {
        NpyBytes bytes;
        ok = npz_open(arena, source, &members.items[i], &bytes, err) &&
             add_array(arena, arrays, members.items[i].name, bytes, err);
    }
    return ok;
}

/* NAME.npy. */
static bool read_array(Arena *arena, const char *path, const char *name, Arrays *arrays, Err *err) {
    const Source *source = source_open(arena, path, 0, err);
    const bool ok =
        source && add_array(arena, arrays, name, (NpyBytes){source, 0, source->size}, err);
    if (!ok) err_file(err, path);
    return ok;
}

static bool read_folder(Arena *arena, const char *path, Arrays *arrays, Err *err) {
    bool ok = true;
    DIR *dir = opendir(path);
    for (const struct dirent *entry; ok && dir && (entry = readdir(dir));) {
        const size_t length = strlen(entry->d_name);
        if (length <= 4 || strcmp(entry->d_name + length - 4, ".npy") != 0) continue;
        const char *name = arena_copy(arena, entry->d_name, length - 4);
        ok =
            read_array(arena, arena_printf(arena, "%s/%s", path, entry->d_name), name, arrays, err);
    }
    if (dir) closedir(dir);
    if (ok && !arrays->items.count) return err_set(err, ERR_USAGE, "the folder has no NAME.npy");
    return ok;
}

static bool read_arrays(Job *job, Err *err) {
    const char *path = parsed_value(job->parsed, "data");
    Arena *arena = job->program->arena;
    Arrays arrays = {0};
    struct stat status;
    if (!path) return console_missing(job->parsed, "samples: --data FILE.npz", err);
    const bool folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    if (!(folder ? read_folder : read_archive)(arena, path, &arrays, err)) {
        if (!err->file[0]) err_file(err, path);
        return false;
    }
    job->how.names = arrays.names.items;
    job->how.data = arrays.items.items;
    job->how.data_count = arrays.items.count;
    return true;
}

/* ---- words ----------------------------------------------------------------------------------- */

static bool take_numbers(Job *job, Err *err) {
    const Parsed *parsed = job->parsed;
    DemiTrainOptions *how = &job->how;
    if (parsed_flag(parsed, "steps") && parsed_flag(parsed, "epochs"))
        return err_set(err, ERR_USAGE, "give '--steps' or '--epochs', not both");
    if (!parsed_number(parsed, "steps", 1, &how->steps, 0, err) ||
        !parsed_number(parsed, "epochs", 1, &how->epochs, 0, err) ||
        !parsed_number(parsed, "batch", 1, &how->batch, 0, err) ||
        !parsed_number(parsed, "seed", 0, &how->seed, 0, err) ||
        !parsed_number(parsed, "every", 1, &how->every, EVERY, err))
        return false;
    if (parsed_flag(parsed, "every") && !job->checkpoint)
        return err_set(err, ERR_USAGE, "'--every' requires '--checkpoint'");
    how->in_order = parsed_flag(parsed, "in-order");
    how->keep_weights = parsed_flag(parsed, "keep-weights");
    if (!parsed_flag(parsed, "rate")) return true;
    how->rate = &job->rate;
    return parsed_real(parsed, "rate", &job->rate, 0, err);
}

static bool take_words(Job *job, Err *err) {
    const char *second = parsed_argument(job->parsed, 1);
    job->how = (DemiTrainOptions)DEMI_TRAIN_OPTIONS_INIT;
    job->input = parsed_argument(job->parsed, 0);
    job->output = parsed_value(job->parsed, "output");
    job->checkpoint = parsed_value(job->parsed, "checkpoint");
    job->quiet = parsed_flag(job->parsed, "quiet");
    if (!job->input) return console_missing(job->parsed, "a model to train", err);
    if (job->output && second)
        return err_set(err, ERR_USAGE, "two outputs: '%s' and '%s'", second, job->output);
    if (!job->output) job->output = second;
    if (!job->output && !job->checkpoint)
        return console_missing(job->parsed, "an output file: -o OUT", err);
    job->how.compile = &job->compile;
    job->how.context = &job->context;
    return take_numbers(job, err) && run_options_compile(job->parsed, false, &job->compile, err) &&
           run_options_context(job->parsed, &job->context, err);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool open_outputs(Job *job, Err *err) {
    if (job->output && !(job->file = console_open_model(job->program, job->output, err)))
        return false;
    return !job->checkpoint || outputs_try(job->program, "checkpoint", job->checkpoint, err);
}

static const char *mark_of(const Model *model, const char *key) {
    for (const KeyValue *entry = model->metadata; entry; entry = entry->next)
        if (sym_equals(entry->key, key)) return sym_text(entry->value);
    return NULL;
}

/* Is the checkpoint one of IN? */
static bool check_origin(Job *job, DemiModel *in, Err *err) {
    const Model *checkpoint = demi_front_model(job->model);
    const Source *source = demi_front_model(in)->source;
    const char *from = mark_of(checkpoint, TRAINING_FROM_KEY);
    char now[40];
    uint64_t hash[2];
    if (!mark_of(checkpoint, TRAINING_STEPS_KEY)) {
        err_set(err, ERR_USAGE, "this is not a training checkpoint");
        err_hint(err, "give '--checkpoint' another name");
    } else if (from && source) {
        if (!source_hash(source, job->program->arena, hash, err)) return false;
        snprintf(now, sizeof now, TRAINING_FROM_FORMAT, (unsigned long long)hash[0],
                 (unsigned long long)hash[1]);
        if (strcmp(now, from) == 0) return true;
        err_set(err, ERR_USAGE, "the checkpoint is of another model than '%s'", job->input);
        err_hint(err, "give '--checkpoint' another name, or remove it");
    }
    if (err->code == ERR_NONE) return true;
    err_file(err, job->checkpoint);
    return false;
}

static bool load(Job *job, Err *err) {
    struct stat status;
    DemiModel *in = NULL;
    job->went_on = job->checkpoint && stat(job->checkpoint, &status) == 0;
    if (!job->went_on) return console_load(job->program, job->parsed, job->input, &job->model, err);
    const bool ok = console_load(job->program, job->parsed, job->checkpoint, &job->model, err) &&
                    console_load(job->program, job->parsed, job->input, &in, err) &&
                    check_origin(job, in, err);
    demi_free(in);
    return ok;
}

static bool save(void *user, DemiModel *model, uint64_t step) {
    Job *job = user;
    DemiError error = DEMI_ERROR_INIT;
    (void)step;
    if (!job->checkpoint) return true;
    return error_take(&job->save_error, demi_save_file(model, job->checkpoint, NULL, &error),
                      &error);
}

static bool write_model(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    ModelSave *saved = NULL;
    if (!job->file) return true;
    const DemiStatus status = demi_run_pipeline(job->model, "strip-training", NULL, NULL, &error);
    return error_take(err, status, &error) &&
           console_write_model(job->program, job->model, job->file, &saved, err) &&
           outputs_commit(job->program, saved, err);
}

/* ---- training -------------------------------------------------------------------------------- */

static FILE *text_of(const Job *job) {
    return job->output && strcmp(job->output, "-") == 0 ? stderr : stdout;
}

/* What steps update of the model's own initializers, and what of them they leave. */
static void tell_updated(const Job *job) {
    const Graph *graph = demi_front_model(job->model)->graph;
    uint64_t tensors[2] = {0}, elements[2] = {0}; /* of floats: left, updated */
    for (size_t i = 0; i < graph->initializers.count && !job->quiet; i++) {
        const Value *value = graph->initializers.items[i];
        if (!dtype_is_float((Dtype)value->init->dtype) || !tensor_check(value->init, NULL))
            continue;
        tensors[value->trained]++;
        elements[value->trained] += tensor_count(value->init);
    }
    if (!tensors[1]) return;
    fprintf(text_of(job), "updates %" PRIu64 " tensor%s, %" PRIu64 " element%s", tensors[1],
            tensors[1] == 1 ? "" : "s", elements[1], elements[1] == 1 ? "" : "s");
    if (tensors[0])
        fprintf(text_of(job),
                "; does not update %" PRIu64 " floating-point tensor%s, %" PRIu64 " element%s",
                tensors[0], tensors[0] == 1 ? "" : "s", elements[0], elements[0] == 1 ? "" : "s");
    fputc('\n', text_of(job));
}

static bool tell(void *user, const DemiTrainStep *step) {
    Job *job = user;
    const uint64_t each = step->steps > LINES ? step->steps / LINES : 1;
    if (!job->quiet && (step->step % each == 0 || step->step == step->steps || step->step == 1)) {
        progress_line_clear();
        fprintf(text_of(job), "step %" PRIu64 " of %" PRIu64 ", epoch %" PRIu64 "   loss %.6g",
                step->step, step->steps, step->epoch, step->loss);
        for (size_t i = 1; i < step->loss_count; i++)
            fprintf(text_of(job), ", %.6g", step->losses[i]);
        if (step->scale > 0) fprintf(text_of(job), "   scale %.6g", step->scale);
        fprintf(text_of(job), "   %.4g samples/s\n", step->samples_per_second);
        fflush(text_of(job));
    }
    return !interrupt_came();
}

static bool train(Job *job, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    DemiTrained trained = DEMI_TRAINED_INIT;
    job->how.progress = tell;
    job->how.progress_user = job;
    job->how.save = save;
    job->how.save_user = job;
    tell_updated(job);
    const bool held = interrupt_hold();
    const DemiStatus status = demi_train(job->model, &job->how, &trained, &error);
    if (held) interrupt_release();
    if (job->save_error.code != ERR_NONE) {
        *err = job->save_error;
        return false;
    }
    if (!error_take(err, status, &error)) {
        if (err->code != ERR_USAGE) err_file(err, job->went_on ? job->checkpoint : job->input);
        return false;
    }
    if (!job->quiet)
        fprintf(text_of(job), "%s after %" PRIu64 " steps: loss %.6g, %.4g samples/s\n",
                trained.ended_early ? "ended" : "trained", trained.steps, trained.loss,
                trained.samples_per_second);
    return true;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    Job job = {.program = program, .parsed = parsed};
    const bool ok = take_words(&job, err) && open_outputs(&job, err) && read_arrays(&job, err) &&
                    load(&job, err) && train(&job, err) && write_model(&job, err);
    demi_free(job.model);
    return ok;
}

const Command command_train = {
    .name = "train",
    .summary = "train a model that has a training_info",
    .usage = "IN [-o] OUT --data FILE.npz [OPTIONS]",
    .about =
        "Trains a model: compiles its graph and its training algorithm as one plan, and runs "
        "it batch after batch, each step on what the last one updated. Ctrl-C ends training "
        "after a step, and the current state is written.\n\nA training_info is ONNX's: the "
        "loss, its Gradient, the optimizer, and what a step updates; 'demi make-training' "
        "adds one to a model. If there are several, a step runs each of them in order. If the "
        "model has an initialization, it runs before the first step. Samples are shuffled in "
        "each epoch, depending only on the seed and the epoch. The same command gives the "
        "same bits, in one process or in several that continue from a --checkpoint.\n\nTraining "
        "ends with an error if a loss or weight is not finite, if labels exceed the number of "
        "classes, or if data has other shapes. The error names the first gradient that is not "
        "finite. OUT is not written then, and the last checkpoint is kept. A checkpoint of "
        "another model, or of other samples, is refused.",
    .examples = "demi train train.onnx -o trained.onnx --data samples.npz --epochs 10\n# starting "
                "from an inference model\ndemi make-training model.onnx --optimizer adam --rate "
                "0.001 -o train.onnx\n# resumes after an interruption\ndemi train train.onnx -o "
                "trained.onnx --data samples.npz --epochs 10 --checkpoint now.onnx\n",
    .arguments = arguments,
    .options = options,
    .common = "output data steps epochs batch rate checkpoint quiet help",
    .run = run,
};
