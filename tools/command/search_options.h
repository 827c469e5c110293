// SPDX-License-Identifier: Apache-2.0
/* The options of demi search. */
#ifndef DEMI_SEARCH_OPTIONS_H
#define DEMI_SEARCH_OPTIONS_H

#include "options.h"

extern const OptionRow search_options[];

#endif
