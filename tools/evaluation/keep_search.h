// SPDX-License-Identifier: Apache-2.0
/* The search for nodes to keep (convert --max-error): which nodes have to stay float for the
 * outputs to be near enough, by trial.
 *
 * It is a search for precisions as `demi search` is one, by the same solvers (tools/search/solve): each
 * group is float or low, what is to be least is the number of nodes that are float, and a score is
 * how far a conversion's outputs are off. But what is decided about are the conversion's own nodes,
 * those of inner graphs and of functions too, under any options, and verdicts are those of trials.
 *
 * Groups are runs of neighbors, at first few, of which each is measured alone. Those that bring
 * least are lowered; what stayed float is halved, halves are lowered, and so on down to single nodes.
 * What comes out was measured itself: no error is predicted. The number of trials is bounded, whatever
 * the model's size. Cancelled, the search ends with the best that was found by then. */
#ifndef DEMI_KEEP_SEARCH_H
#define DEMI_KEEP_SEARCH_H

#include "trial.h"

enum { KEEP_TRIALS = 64 }; /* the most */

typedef struct KeptNodes {
    Words nodes;        /* names of those that stay float for the bound */
    bool stopped;       /* the search was cancelled: there may be fewer to keep */
    TrialResult result; /* of the conversion with them */
} KeptNodes;

/* Adds to options->keep what must stay float for the error to be at most `most`; all of it lies in
 * kept->result.arena, which is set. ERR_MODEL where
 * even without any node that runs low it is larger: with inputs or outputs that are low, or
 * constants that do not fit. ERR_CANCELLED where it was cancelled too early. */
bool keep_search(Trials *trials, DemiConvertOptions *options, double most, KeptNodes *kept,
                 Err *err);

#endif
