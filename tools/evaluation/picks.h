// SPDX-License-Identifier: Apache-2.0
/* What a run picks: the elements that TopK, ArgMax, NonMaxSuppression and the like select, and what
 * comparisons and casts to integers say of numbers near their threshold.
 *
 * Two models that differ by rounding pick otherwise where two scores are nearly the same. Their
 * outputs then have the same rows in another order, or others that are as good, and held element
 * against element they look entirely different. So the second model is judged with the picks of the
 * first: each of its own picks is replaced by the reference's, and outputs are compared row against
 * row with what belongs together. The picks are judged by what they were made of: how far, in the
 * second model's own scores, the reference's pick is from a tie with its own. (Of
 * NonMaxSuppression: how far boxes, scores and thresholds are from the reference's.)
 */
#ifndef DEMI_PICKS_H
#define DEMI_PICKS_H

#include "session.h"
#include "sym.h"

/* Those that differ. */
typedef VEC(DemiPick) PickRows;

enum { PICK_FROM = 5 };
typedef struct Pick {
    DemiData value;
    DemiData from[PICK_FROM]; /* what NonMaxSuppression read */
    size_t next;              /* 1 + index of the next of that name; 0: none */
} Pick;

/* A run's picks by name; a name may be given several times, in bodies of loops. */
typedef struct Picks {
    Arena *arena;
    SymTable names;
    VEC(Pick) items;
    VEC(size_t) first, last, at; /* by name: 1 + index; `at`: the next to be handed out */
} Picks;

void picks_init(Picks *picks, Arena *arena);

/* Does the plan pick anything? */
bool picks_are_made(const Session *session);

/* Within a run's DemiStepFn: keeps what the step picked. */
void picks_note(Picks *picks, const DemiStep *step);
/* Runs the session and keeps its picks. */
bool picks_run_reference(Picks *picks, Session *session, Err *err);

/* Begins a run that is given these picks. */
void picks_begin(Picks *picks);
/* Within its DemiStepFn: replaces the step's pick, and adds a row, where it differs. What the step
 * made is no longer to be looked at then. */
bool picks_force(Picks *picks, Session *session, const DemiStep *step, PickRows *rows,
                 bool *replaced, Err *err);
/* Runs the session, which is bound, with these picks. */
bool picks_run(Picks *picks, Session *session, PickRows *rows, Err *err);

/* The largest margin; 0 where there is no row. */
double picks_margin(const PickRows *rows);

#endif
