// SPDX-License-Identifier: Apache-2.0
/* Scores of converted models by a command of the user's: it gets a path and prints a number. */
#ifndef DEMI_SCORE_COMMAND_H
#define DEMI_SCORE_COMMAND_H

#include "console.h"
#include "demi_search.h"

typedef struct ScoreCommand {
    Arena *arena;
    const char *option; /* that it is of, without dashes */
    const char *words;  /* of a shell; the path goes behind them */
} ScoreCommand;

/* A DemiScoreFn, `command` is a ScoreCommand. The model lies in a file of the folder for temporary
 * files while it runs. What it prints on standard error is seen. Its last word on standard output is
 * the score; "nan" is one that is never good enough. DEMI_ERR_USAGE where it fails or prints none. */
DemiStatus score_command_run(void *command, DemiModel *model, double *score, DemiError *error);

#endif
