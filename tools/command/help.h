// SPDX-License-Identifier: Apache-2.0
/* Help, man page and shell completions, all printed from the command tables. */
#ifndef DEMI_HELP_H
#define DEMI_HELP_H

#include <stdio.h>

#include "options.h"

/* `demi --help`. */
void help_print_all(const CommandTable *table, FILE *out);

/* `demi COMMAND -h`: the most used options and an example. */
void help_print_brief(const Command *command, FILE *out);

/* `demi COMMAND --help`. */
void help_print_command(const Command *command, FILE *out);

/* demi(1) as roff source. */
void help_print_man(const CommandTable *table, FILE *out);

/* A completion script: shell is "bash", "zsh" or "fish". False for another. */
bool help_print_completion(const CommandTable *table, const char *shell, FILE *out);

#endif
