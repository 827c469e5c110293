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

typedef struct Session {
    const char *path;
    bool judges; /* set before session_open: without --numerics a model is compiled faithful, and
                    with every value kept */
    bool is_plan;
    DemiPlan *plan;
    DemiContext *context;
    unsigned threads;
    size_t input_count, output_count;
    DemiPlanIo *inputs, *outputs; /* sizes that --shape gave are in */
    DemiData *values;            /* [input_count] */
    bool *given;                  /* [input_count] */
    const char *guessed; /* an input of which a size that the model leaves open was taken as 1 */
} Session;

/* Options of all commands that run something. */
// clang-format off
#define SESSION_OPTIONS                                                                            \
    {"input", 'i', OPTION_ROW_LIST, "NAME=FILE", NULL,                                             \
     "An input from a file: .npy, .npz, .pb (TensorProto, SequenceProto, OptionalProto), "         \
     "or its bare elements. An .npz without NAME gives all inputs it has arrays of. May be "       \
     "repeated."},                                                                                 \
    {"data", 'd', OPTION_ROW_VALUE, "DIR", NULL,                                                   \
     "Inputs as ONNX's test data has them: input_N.pb by position, in DIR or in its "              \
     "folders test_data_set_N."},                                                                  \
    {"random", 'r', OPTION_ROW_VALUE, "SEED", NULL,                                                \
     "Random values for inputs that nothing else gives: the same for a seed everywhere. "          \
     "Floats are near normal, integers of more than 8 bits 0 to 2."},                              \
    {"shape", 's', OPTION_ROW_LIST, "NAME=1x3x224x224", NULL,                                      \
     "Sizes of an input that the model leaves open (1 where nothing says more); also "             \
     "NAME:1,3 and NAME:[1,3]. May be repeated."},                                                 \
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

/* The folders of inputs that `data` means, --data's: itself or those in it; none where it is
 * NULL. */
bool session_data_folders(Program *program, const char *data, Words *folders, Err *err);

/* Fills `values` from the options and `folder` (NULL: none). Without --random, `random_seed` (a
 * number as text) is used instead; NULL: what nothing gives is an error that lists the inputs. */
bool session_find_inputs(Session *session, Program *program, const Parsed *parsed,
                         const char *folder, const char *random_seed, Err *err);

/* The values of another session's inputs of the same names, floats rounded to this one's types. */
bool session_take_inputs(Session *session, Program *program, const Session *from, Err *err);

/* Gives the context its inputs. */
bool session_bind(Session *session, Err *err);
/* Runs it once. */
bool session_run(Session *session, Err *err);

/* Writes input_N.pb for every input that has a value. */
bool session_save_inputs(const Session *session, Program *program, const char *folder, Err *err);

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
