// SPDX-License-Identifier: Apache-2.0
/* Trials: conversions of a model, each run beside the model itself on the same inputs. They are
 * what convert's --calibrate and --verify measure with, and --max-error searches (keep_search.h).
 *
 * Nothing is written; what a trial needed is gone when it ends. What the model itself made of a set
 * of inputs is kept for the next trial, as far as memory goes.
 */
#ifndef DEMI_TRIAL_H
#define DEMI_TRIAL_H

#include "judge.h"
#include "nonfinite.h"
#include "progress.h"
#include "share.h"

typedef struct TrialSet {
    SessionSet from;
    size_t number;    /* among all sets: of random values, which differ from set to set */
    Arena *arena;     /* of what follows; NULL: not run yet, or let go */
    DemiData *values; /* of the inputs */
    bool *given;
    DemiData *outputs;
    Picks picks;
    uint64_t bytes;   /* of values and outputs, in *Trials.held */
    bool stays;       /* for the next trial */
    int64_t *assumed; /* sizes, as the session's input_sizes have them: -1 where not assumed */
} TrialSet;

typedef struct SessionList {
    Session *const *items; /* [count] */
    size_t count;
} SessionList;

typedef struct Trials {
    Arena *arena;       /* of what lives as long as the trials do */
    SessionOptions how; /* of all runs */
    DemiSource source;  /* of the model: opened for each trial */
    DemiSource
        measured; /* of what the reference runs: the same, but while an equalized model is calibrated */
    const char *path; /* what messages call it */
    Progress progress;
    TrialSet *sets; /* [count] */
    size_t count;
    size_t parts; /* sets that there should be: few are cut along an axis that counts samples, if
                           they can be (session_input_sets); 0: only large files are */
    Session *reference; /* the model itself, or the equalized one (trial_equalized.h) */
    Session *own;       /* the model itself */
    bool picks;         /* it picks something (picks.h) */
    size_t done;        /* trials */
    uint64_t memory;    /* most bytes for all runs and sets together (trial_memory.h) */
    uint64_t *held;     /* bytes of sets, of that: of all trials that are run by turns together */
    SessionList others; /* that run by turns with the reference now, one by one or side by side */
    double enough;      /* what is off by no more is not run again with the model's picks; a
                             conversion that is off by more ends its trial, if not 0 */
    bool
        calibrating; /* a given set on which the model gives nothing but NaN and infinity is an error */
    uint64_t numbers,
        floats;     /* while calibrating, in this process: of float32 outputs, and of these */
    bool searching; /* which says itself how far it is */
    Share share;    /* with processes that each run some of the sets */
} Trials;

/* How many of the sets this process runs where trials share them, and the place of its i-th: each has
 * every parts-th one. */
static inline size_t trials_mine(const Trials *trials) {
    const Share *share = &trials->share;
    if (share_is_alone(share)) return trials->count;
    return (trials->count + share->parts - 1 - share->part) / share->parts;
}
static inline size_t trials_place(const Trials *trials, size_t i) {
    return share_is_alone(&trials->share) ? i : i * trials->share.parts + trials->share.part;
}

/* What a conversion's outputs are off by at worst, over all sets. */
typedef struct TrialResult {
    Arena *arena; /* where it lies */
    Judgment judgment;
    Words low; /* nodes that run in the new type; asked for where `nodes` is set */
    bool nodes;
} TrialResult;

/* Opens the model and finds the inputs. `arena`, `how`, `source`, `progress` and `share` are set, and `held` where it
 * is that of other trials. All processes must find the same sets, and use no more memory than the one that has
 * the least. */
bool trials_open(Trials *trials, Err *err);

/* Trials of some of these sets, by their places here, which none of both has kept anything of yet. They have
 * the same reference, so they run one after the other, and what they keep counts together. */
void trials_select(const Trials *trials, const size_t *places, size_t count, Trials *selected);

/* Begins a call: all memory of the trials jumps to this trap, and what an earlier call did not come
 * to an end of is forgotten. */
void trials_lend(Trials *trials, MemTrap *trap);

/* Converts so and runs. */
bool trials_run(Trials *trials, const DemiConvertOptions *options, TrialResult *result, Err *err);

/* Runs another model. What the limit leaves to the types is settled with the first set. */
bool trials_judge(Trials *trials, const DemiSource *model, DemiLimit *limit, TrialResult *result,
                  Err *err);

/* Where a conversion that breaks an output begins to; what is found lies in `arena`. */
bool trials_find_broken(Trials *trials, const DemiConvertOptions *options, Arena *arena,
                        DemiBroken *found, Err *err);

/* Finds the inputs of set i and gives them to a session of the reference's plan, to be run there in the
 * reference's place, for who watches it: what was kept of the set is let go. Then takes what it gave; if
 * not to `keep` it, only lets go. */
bool trials_prepare(Trials *trials, size_t i, Arena *within, Session *session, Err *err);
void trials_take(Trials *trials, size_t i, const Session *session, bool keep);
/* While calibrating, after such a run: ERR_MODEL, with the set's title, where the outputs that it gave are all NaN or
 * infinite, which says nothing of the model. After all runs: the same where no given set gave any number. */
bool trials_see_outputs(Trials *trials, size_t i, const Session *session, Err *err);
bool trials_saw_elements(const Trials *trials, Err *err);
/* Lets go what is kept of all sets. */
void trials_forget(Trials *trials);

/* Gives the reference's context the inputs of set i, whose outputs are in sets[i] then. */
bool trials_bind(Trials *trials, size_t i, Err *err);
/* The same of another session's context, and the reference's outputs alone. */
bool trials_give(Trials *trials, size_t i, Arena *within, Session *session, Err *err);
/* After that and what else was done with set i: whether its values stay is decided by memory. */
void trials_end_set(Trials *trials, size_t i);

/* What another model makes of a set: called with the reference's outputs still there, outputs of
 * `session` being demi_context_output's. What follows from it is packed into `record`, or taken at once
 * where that is NULL. False with the error set ends the runs. */
typedef bool (*TrialVisit)(void *user, const TrialSet *set, const Session *session,
                           ByteBuffer *record, Err *err);

/* Runs another model on every set, compiled as `how` says; visits are in the order of sets. Where there
 * are several sets and threads, each thread runs a set of its own (trial_visit.c). Where processes share the
 * sets, each visits its own, and then `take` has the records of all, in the order of sets. */
bool trials_visit(Trials *trials, const DemiSource *model, const SessionOptions *how,
                  TrialVisit visit, ShareRecordFn take, void *user, Err *err);

typedef VEC(DemiRange) RangeList;

typedef struct Calibrated {
    RangeList list;
    DemiCalibration method; /* of BEST the one that was */
    double noise;           /* of BEST: what the conversion is off by; trials_fit's */
    Words scales;           /* channel scales of the conversion that equalizes */
} Calibrated;

/* What each float value reached over all sets, as the options have it. */
bool trials_ranges(Trials *trials, const DemiCalibrateOptions *options, Arena *arena,
                   Calibrated *found, Err *err);

/* For several types at once. */
typedef struct RangeWidths {
    const Words *wanted;    /* values that are to be quantized; of others ends are MINMAX's */
    const uint32_t *levels; /* [count]: of each type */
    size_t count;
} RangeWidths;

/* The same from one run of all sets: lists[count], one for each width; but BEST is none of the methods,
 * and what the options say of levels and conversions is not heeded. */
bool trials_ranges_of(Trials *trials, const DemiCalibrateOptions *options,
                      const RangeWidths *widths, Arena *arena, RangeList *lists, Err *err);

/* Tells all processes which sizes were assumed of whose sets. */
bool trials_share_assumed(Trials *trials, Err *err);

/* "seq_len 16, 24, 7, 33; batch 1": the sizes that were assumed; "" where none was. */
const char *trials_assumed(const Trials *trials, Arena *arena);

#endif
