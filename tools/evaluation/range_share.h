// SPDX-License-Identifier: Apache-2.0
/* What values reach over all sets, by the processes that share these (range_watch.h). */
#ifndef DEMI_RANGE_SHARE_H
#define DEMI_RANGE_SHARE_H

#include "range_watch.h"

/* Runs all sets; what they gave is kept by the trials where `keep`. With `selects`, elements are counted
 * of those ranges alone that are there already and wanted. */
bool watched_ranges_measure(WatchedRanges *ranges, Trials *trials, bool selects, bool keep,
                            Err *err);

#endif
