// SPDX-License-Identifier: Apache-2.0
/* Collects what demi.h's DemiReport holds: facts of a model before and after a pipeline, and why
 * each node has its precision. A report owns copies of all its text, so it outlives the model.
 */
#ifndef DEMI_REPORT_H
#define DEMI_REPORT_H

#include "arena.h"
#include "demi.h"
#include "graph.h"
#include "pass.h"

/* An empty report, freed with demi_report_free. Allocation goes to `trap`. */
DemiReport *report_new(MemTrap *trap);

/* Counts the model as it is before any pass. */
void report_take_before(DemiReport *report, const Model *model);

/* The model runs on this machine, so that what its processor lacks is told. */
void report_runs_here(DemiReport *report);

/* Appends one pass that ran. */
void report_take_pass(DemiReport *report, const char *name, uint64_t rewrites, double seconds);

/* Counts the model as it is now, lists its nodes, sorts the lists and writes the advice. `counts`
 * may be NULL where nothing ran. Called once, last. */
void report_take_after(DemiReport *report, const Model *model, const PassCounts *counts);

#endif
