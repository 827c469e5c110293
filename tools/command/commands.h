// SPDX-License-Identifier: Apache-2.0
/* The subcommands of demi, one file each. */
#ifndef DEMI_COMMANDS_H
#define DEMI_COMMANDS_H

#include "options.h"

extern const Command command_convert;
extern const Command command_opt;
extern const Command command_simplify;
extern const Command command_show;
extern const Command command_check;
extern const Command command_diff;
extern const Command command_compile;
extern const Command command_run;
extern const Command command_bench;
extern const Command command_compare;
extern const Command command_search;
extern const Command command_make_training;
extern const Command command_train;
extern const Command command_help;

#endif
