// SPDX-License-Identifier: Apache-2.0
/* A model or plan that a command runs, and the values it runs on: what run, bench and compare
 * share.
 *
 * A file that begins like a plan is mapped; any other one is a model, compiled in memory. Inputs
 * come, each from the first that has it, from --input, a folder of --data, and --random.
 */
#ifndef DEMI_SESSION_H
#define DEMI_SESSION_H

#include "console.h"
#include "demi_runtime.h"
#include "input_sizes.h"
#include "input_use.h"

typedef struct Session {
    const char *path;
    bool judges; /* set before session_open: without --numerics a model is compiled faithful, and
                    with every value kept */
    bool is_plan;
    DemiPlan *plan;
    DemiContext *context;
    unsigned threads;
    size_t input_count, output_count;
    DemiPlanIo *declared;         /* [input_count], as the model has them */
    DemiPlanIo *inputs, *outputs; /* sizes that are known by now are in */
    DemiData *values;            /* [input_count] */
    bool *given;                  /* [input_count] */
    const InputUse *uses;         /* [input_count]: which values they may have */
    InputSizes sizes;
    DemiContextOptions options;
    unsigned set;     /* of random inputs: each set has a seed and sizes of its own */
    unsigned attempt; /* of sizes that are assumed (input_sizes.h): the first that the model took */
    bool takes_files; /* the command has --input */
    bool made;        /* an input is random */
} Session;

/* Options of all commands that run something. */
// clang-format off
#define OPTION_DIM                                                                                 \
    {"dim", 0, OPTION_ROW_LIST, "NAME=N", NULL,                                                    \
     "An open size by the name the model has for it, in all inputs. Where nothing says more, "     \
     "batches are 1, sequences 16 and images 64x64, or what else the model takes. May be "         \
     "repeated."}
#define SESSION_OPTIONS                                                                            \
    {"input", 'i', OPTION_ROW_LIST, "NAME=FILE", NULL,                                             \
     "An input from a file: .npy, .npz, .pb (TensorProto, SequenceProto, OptionalProto), "         \
     "or its bare elements. An .npz without NAME gives all inputs it has arrays of. May be "       \
     "repeated."},                                                                                 \
    {"data", 'd', OPTION_ROW_VALUE, "DIR", NULL,                                                   \
     "Sets of inputs: an .npz (its arrays are called like the inputs), a folder of NAME.npy or "   \
     "of ONNX's input_N.pb, or a folder of such files and folders, each a set; a single .npy for " \
     "a model of one input."},                                                                     \
    {"random", 'r', OPTION_ROW_VALUE, "SEED", NULL,                                                \
     "Random values for inputs that nothing else gives: the same for a seed everywhere. "          \
     "Floats are near normal; integers, masks and counts are what the operators that read them "   \
     "take."},                                                                                     \
    {"shape", 's', OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,                                      \
     "Sizes of an input that the model leaves open; also NAME:1,3 and NAME:[1,3]. They hold for "  \
     "other inputs that have sizes of the same names. May be repeated."},                          \
    OPTION_DIM,                                                                                    \
    {"numerics", 0, OPTION_ROW_VALUE, "MODE", "fast faithful",                                     \
     "What a model is compiled to, as by demi compile. A plan has its own."},                      \
    {"threads", 't', OPTION_ROW_VALUE, "N", NULL,                                                  \
     "Threads to compute with; default: as many as there are processors to use."},                 \
    {"kernels", 0, OPTION_ROW_VALUE, "WHOSE", "auto own onednn",                                   \
     "Which kernels compute, where there are several: auto, each where it is the faster one "      \
     "(the default); own, demi's alone; onednn, oneDNN's wherever it can."},                       \
    {"memory", 0, OPTION_ROW_VALUE, "SIZE", NULL,                                                  \
     "Most memory that values and workspace may take, as 500M or 2G; default: three quarters of "  \
     "the machine's. Calls of functions and constants computed in advance count, too."},           \
    {"time", 0, OPTION_ROW_VALUE, "SECONDS", NULL,                                                 \
     "Most time that a run may take, asked before every step and iteration: for loops that may "   \
     "never end. Default: any."},                                                                  \
    OPTION_DATA_ROOT,                                                                              \
    OPTION_HARDLINKS
// clang-format on

/* Opens the file; the session is all zero or has `judges` set. session_close also after a
 * failure. */
bool session_open(Session *session, Program *program, const Parsed *parsed, const char *path,
                  Err *err);
void session_close(Session *session);

/* The same of a model in memory, which is good only for demi_free afterwards; `path` is set before
 * and for messages. */
bool session_open_model(Session *session, Program *program, const Parsed *parsed, DemiModel *model,
                        Err *err);

/* Does the file begin like a plan? */
bool session_is_plan(Arena *arena, const char *path);

/* The sets of inputs that `data` means, --data's: files and folders, each one set; none where it is
 * NULL. ERR_USAGE where there is none of either. */
bool session_data_sets(const Session *session, Program *program, const char *data, Words *sets,
                       Err *err);
/* What a set is called: the last part of its path, without an ending. */
const char *session_set_name(Arena *arena, const char *set);

/* Fills `values` from the options and `set` (NULL: none). Without --random, `random_seed` (a
 * number as text) is used instead; NULL: what nothing gives is an error that lists the inputs.
 * Random inputs are those of `session->set`. Where sizes have to be assumed, the model is run to
 * see which it takes. */
bool session_find_inputs(Session *session, Program *program, const Parsed *parsed,
                         const char *set, const char *random_seed, Err *err);

/* The values of another session's inputs of the same names, floats rounded to this one's types. */
bool session_take_inputs(Session *session, Program *program, const Session *from, Err *err);

/* Gives the context its inputs. */
bool session_bind(Session *session, Err *err);
/* Runs it once. */
bool session_run(Session *session, Err *err);

/* Writes input_N.pb for every input that has a value. */
bool session_save_inputs(const Session *session, Program *program, const char *folder, Err *err);

/* "; sizes assumed: seq_len 16, batch 1" where some were; else "". */
const char *session_assumed(const Session *session);

/* A run of the inputs that are set, on a context of its own: does the model take them? */
bool session_probe(const Session *session);

/* Gives input i what a file holds. */
bool session_read_input(Session *session, Program *program, size_t i, const char *path, Err *err);
/* Gives the inputs what an archive has arrays of; one that is neither input nor, where `outputs`,
 * output is an error. */
bool session_read_archive(Session *session, Program *program, const char *path, bool outputs,
                          Err *err);
/* Gives the inputs what a set of --data holds. */
bool session_read_set(Session *session, Program *program, const char *set, Err *err);
/* The input of that name; input_count where there is none. */
size_t session_input(const Session *session, const char *name);
/* ERR_USAGE for a name that an option has and the model lacks, with the nearest as hint. */
bool session_no_input(const Session *session, Arena *arena, const char *name, const char *option,
                      Err *err);
/* Says in the error which input it is about, and which there are. Returns false. */
bool session_blame(const Session *session, Arena *arena, size_t input, Err *err);

/* "x float[1,3], y int64[]". */
const char *session_list(Arena *arena, const DemiPlanIo *ios, size_t count);

/* The whole number that an option has, from `least` on; `otherwise` where it is not given. */
bool session_number(const Parsed *parsed, const char *option, uint64_t least, uint64_t *number,
                    uint64_t otherwise, Err *err);
/* Bytes: a whole number, with K, M or G for powers of 1024; 0 where the option is not given. */
bool session_bytes(const Parsed *parsed, const char *option, uint64_t *bytes, Err *err);
/* A number that is not negative. */
bool session_real(const Parsed *parsed, const char *option, double *number, double otherwise,
                  Err *err);

/* Where a plan goes. */
typedef struct SessionSink {
    DemiWriteFn write;
    void *user;
} SessionSink;

/* Compiles the model at `path`, by --numerics; `judges` is Session's. */
bool session_compile(Program *program, const Parsed *parsed, const char *path, bool judges,
                     SessionSink sink, Err *err);

#endif
