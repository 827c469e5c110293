// SPDX-License-Identifier: Apache-2.0
/* A model or plan that is run, and the values it runs on: what trials, comparisons, and the
 * commands run and bench share.
 *
 * A file that begins like a plan is mapped; any other one is a model, compiled in memory. Inputs
 * come, each from the first that has it, from files, a set of values or of --data, and random ones.
 */
#ifndef DEMI_SESSION_H
#define DEMI_SESSION_H

#include "demi_trials.h"
#include "err.h"
#include "input_sizes.h"
#include "input_use.h"
#include "npy.h"
#include "vec.h"

typedef struct SessionOptions {
    DemiCompileOptions compile;
    DemiContextOptions context; /* no more than 1024 threads are used */
    DemiInputOptions inputs;
    const char *const *carries; /* [carry_count]: "OUTPUT=INPUT", see session_open */
    size_t carry_count;
} SessionOptions;

typedef struct SessionFile SessionFile;

typedef struct Session {
    const char *path;
    const SessionOptions *how; /* set before session_open */
    bool is_plan;
    bool twin; /* the plan is another session's */
    DemiPlan *plan;
    DemiContext *context;
    unsigned threads;
    size_t input_count, output_count;
    DemiPlanIo *declared;         /* [input_count], as the model has them */
    DemiPlanIo *inputs, *outputs; /* sizes that are known by now are in */
    DemiData *values;             /* [input_count] */
    bool *given;                  /* [input_count] */
    const InputUse *uses;         /* [input_count]: which values they may have */
    InputSizes sizes;
    DemiContextOptions options; /* of the context */
    unsigned set;               /* of random inputs: each set has a seed and sizes of its own */
    unsigned attempt; /* of sizes that are assumed (input_sizes.h): the first that the model took */
    bool made;        /* an input is random */
    const char *data; /* where the inputs were read from, for messages; NULL: nowhere */
    bool *carried;    /* [input_count]: by the options' carries */
    SessionFile *file; /* that is read in parts (session_parts.h); NULL: none is open */
    uint64_t reserved; /* see session_reserve */
    bool ran;          /* so that carried inputs have what the last run gave */
} Session;

/* Faithful, with every value kept: what models are judged by. */
#define SESSION_OPTIONS_JUDGED                                                                     \
    {                                                                                              \
        {.size = sizeof(DemiCompileOptions),                                                       \
         .numerics = DEMI_NUMERICS_FAITHFUL,                                                       \
         .keep_values = true},                                                                     \
            DEMI_CONTEXT_OPTIONS_INIT, DEMI_INPUT_OPTIONS_INIT, NULL, 0                            \
    }

/* A session that is closed when the arena ends, if not before. */
Session *session_new(Arena *arena, const SessionOptions *how);

/* Opens the source's model, or the plan at its path, and declares what is carried from run to run:
 * of each OUTPUT=INPUT the output of a run is that input of the next. A '*' in both stands for any
 * text, the same in both; ERR_USAGE where there is no such pair. session_close also after a
 * failure. */
bool session_open(Session *session, Arena *arena, const DemiSource *source, Err *err);
void session_close(Session *session);

/* The same of a model in memory, which is used up: *model is NULL afterwards where it got as far as that.
 * `path` is set before and for messages. */
bool session_open_model(Session *session, Arena *arena, DemiModel **model, Err *err);

/* A session of the same plan, with a context of its own, which `how` is about; closed before `session`
 * is. NULL with the error set. */
Session *session_twin(const Session *session, Arena *arena, const SessionOptions *how, Err *err);

/* Does the file begin like a plan? */
bool session_is_plan(Arena *arena, const char *path);

/* The sets of inputs that `data` means (DemiInputOptions): files and folders, each one set; none
 * where it is NULL. ERR_USAGE where there is none of either. */
bool session_data_sets(const Session *session, Arena *arena, const char *data, Words *sets,
                       Err *err);
/* What a set is called: the last part of its path, without an ending. */
const char *session_set_name(Arena *arena, const char *set);

/* One set of inputs. */
typedef struct SessionSet {
    const char *path;  /* of files; NULL: none */
    const char *title; /* what messages call it: its path, and which part it is */
    NpyRows rows;      /* of a part, of files or values; count 0: it is whole */
    uint64_t uncut;    /* bytes of a large file that is whole, as not all first axes are open in the
                             model; else 0 */
    const size_t *values; /* its number in the options' values; NULL: none */
    bool random;          /* what nothing gives is random, of `session->set`; else an error that
                                  lists the inputs */
} SessionSet;

typedef VEC(SessionSet) SessionSetList;

/* The sets that the options say: those of `values`, of `data`, or as many random ones as are asked
 * for; at least one. `parts`: 0, and they stay whole; 1, and large files are cut (session_parts.h); more, and
 * where there are not half as many sets, small ones are cut, too, into about so many parts together. ERR_USAGE where
 * values and data are both given, or there is no such data. */
bool session_input_sets(const Session *session, Arena *arena, const DemiInputOptions *inputs,
                        size_t parts, SessionSetList *sets, Err *err);
/* Where a set of files has input i: in an archive or file, or in a file of a folder, called like it. NULL:
 * nowhere, or by position. */
const char *session_file_of(const Session *session, Arena *arena, const char *set, size_t i);

/* Fills `values` from the options and the set. Where sizes have to be assumed, the model is run to
 * see which it takes. */
bool session_find_inputs(Session *session, Arena *arena, const SessionSet *set, Err *err);

/* The values of another session's inputs of the same names, floats rounded to this one's types. */
bool session_take_inputs(Session *session, Arena *arena, const Session *from, Err *err);

/* Gives the context its inputs. */
bool session_bind(Session *session, Err *err);
/* Runs it once. */
bool session_run(Session *session, Err *err);
/* Takes bytes out of its context's budget, for what its runs are watched for; false where what the context
 * holds by now leaves no room. */
bool session_reserve(Session *session, uint64_t bytes);
/* What it was before any were taken. */
uint64_t session_budget(const Session *session);
/* Says in the error of a run which set of inputs it had; NULL: none that was read. */
void session_blame_data(const char *data, Err *err);
/* What the last run gave under that name, looked for from output `first` on; NULL where it has no such
 * output. */
const DemiData *session_output(const Session *session, const char *name, size_t first);
/* Before it runs again from where it began: carried inputs that grew are as long as they were given.
 */
void session_rewind(Session *session);

/* "; sizes assumed: seq_len 16, batch 1" where some were; else "". */
const char *session_assumed(const Session *session);

/* A run of the inputs that are set, on a context of its own: does the model take them? */
bool session_probe(const Session *session);

/* Input i has its value by now: sizes that are named in its shape are known. */
void session_take_value(Session *session, size_t i);
/* Gives input i what a file holds. */
bool session_read_input(Session *session, Arena *arena, size_t i, const char *path, Err *err);
/* Gives the inputs what an archive has arrays of; one that is neither input nor, where `outputs`,
 * output is an error. */
bool session_read_archive(Session *session, Arena *arena, const char *path, bool outputs, Err *err);
/* Gives the inputs what a set of files holds. */
bool session_read_set(Session *session, Arena *arena, const char *set, Err *err);
/* The place of a name in a list of `count`; count where there is none. It is looked for from `first` on,
 * and then before: two models mostly have the same names in the same order, and there it is at once. */
size_t session_find_io(const DemiPlanIo *list, size_t count, const char *name, size_t first);
/* The input of that name; input_count where there is none. */
size_t session_input(const Session *session, const char *name);
/* Says in the error which input it is about, and which there are. Returns false. */
bool session_blame(const Session *session, Arena *arena, size_t input, Err *err);
/* ERR_USAGE for a name that an option (NULL: a value of the caller's, or a file) has and the model
 * lacks, with the nearest as hint; `file` is what the error is about. */
bool session_no_input(const Session *session, Arena *arena, const char *file, const char *name,
                      const char *option, Err *err);

/* "x float[1,3], y int64[]". */
const char *session_list(Arena *arena, const DemiPlanIo *ios, size_t count);

#endif
