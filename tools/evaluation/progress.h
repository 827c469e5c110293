// SPDX-License-Identifier: Apache-2.0
/* What a caller is told of work that takes long, and where it can end it. */
#ifndef DEMI_PROGRESS_H
#define DEMI_PROGRESS_H

#include "clock.h"
#include "demi_trials.h"
#include "err.h"

typedef struct Progress {
    DemiProgressFn tell; /* NULL: nobody is told */
    void *user;
    bool cancelled; /* what is underway is ended by an error that says so */
    double until;   /* of clock_seconds: the same where it is later than that; 0: at any time */
} Progress;

/* False with ERR_CANCELLED where the caller cancels. */
static inline bool progress_tell(Progress *progress, const char *what, size_t done, size_t total,
                                 Err *err) {
    const bool late = progress->until > 0 && clock_seconds() > progress->until;
    if (!late && (!progress->tell || progress->tell(progress->user, what, done, total)))
        return true;
    progress->cancelled = true;
    return err_set(err, ERR_CANCELLED, "cancelled");
}

#endif
