// SPDX-License-Identifier: Apache-2.0
/* Help, manual pages and shell completions, all printed from the command tables and those of
 * settings and passes. */
#ifndef DEMI_HELP_H
#define DEMI_HELP_H

#include <stdio.h>

#include "demi.h"
#include "options.h"

/* `demi --help`. */
void help_print_all(const CommandTable *table, FILE *out);

/* `demi COMMAND -h`: the most used options and an example. */
void help_print_brief(const Command *command, FILE *out);

/* `demi COMMAND --help`. */
void help_print_command(const Command *command, FILE *out);

/* demi(1), and demi-COMMAND(1), as roff source. */
void help_print_man(const CommandTable *table, FILE *out);
void help_print_command_man(const CommandTable *table, const Command *command, FILE *out);

/* What is explained beside commands; ended by a row without name. */
typedef struct HelpTopic {
    const char *name;
    void (*print)(FILE *out, bool roff); /* for the terminal, or as a manual page */
} HelpTopic;
extern const HelpTopic help_topics[];

/* What counts where a pass's option is not given: *length characters; NULL: nothing. */
const char *help_pass_default(const DemiPassOption *option, int *length);

/* A completion script: shell is "bash", "zsh" or "fish". False for another. */
bool help_print_completion(const CommandTable *table, const char *shell, FILE *out);

#endif
