// SPDX-License-Identifier: Apache-2.0
/* demi help: help on a command or a topic, manual pages, shell completions. */
#include "commands.h"
#include "console.h"
#include "help.h"
#include "text_distance.h"

#include <string.h>

static const ArgumentRow arguments[] = {
    {"COMMAND",
     "The command to explain, or policy or pipeline. Without it, demi lists all commands."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"man", 0, OPTION_ROW_FLAG, NULL, NULL,
     "Print the manual page of COMMAND, policy, or pipeline as roff source, or that of demi(1)."},
    {"completion", 0, OPTION_ROW_VALUE, "SHELL", "bash zsh fish",
     "Print a completion script for bash, zsh, or fish."},
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

static bool unknown(const Program *program, const char *name, Err *err) {
    err_set(err, ERR_USAGE, "unknown command '%s'", name);
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < program->commands->count; i++)
        nearest_name_try(&nearest, program->commands->items[i]->name);
    for (const HelpTopic *topic = help_topics; topic->name; topic++)
        nearest_name_try(&nearest, topic->name);
    if (nearest.best)
        err_hint(err, "did you mean '%s'?", nearest.best);
    else
        err_hint(err, "'demi --help' lists the commands");
    return false;
}

static bool explain(const Program *program, const char *name, bool roff, Err *err) {
    const char *plain = strncmp(name, "demi-", 5) == 0 ? name + 5 : name; /* of a manual page */
    for (const HelpTopic *topic = help_topics; topic->name; topic++) {
        if (strcmp(topic->name, plain) != 0) continue;
        topic->print(stdout, roff);
        return true;
    }
    const Command *command = command_find(program->commands, plain);
    if (!command) return unknown(program, name, err);
    if (roff)
        help_print_command_man(program->commands, command, stdout);
    else
        help_print_command(command, stdout);
    return true;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    const char *name = parsed_argument(parsed, 0), *shell = parsed_value(parsed, "completion");
    bool roff = parsed_flag(parsed, "man");
    if (shell)
        help_print_completion(program->commands, shell, stdout);
    else if (name && strcmp(name, "demi") != 0)
        return explain(program, name, roff, err);
    else if (roff)
        help_print_man(program->commands, stdout);
    else
        help_print_all(program->commands, stdout);
    return true;
}

const Command command_help = {
    .name = "help",
    .summary = "explain a command; print manual pages or shell completions",
    .usage = "[COMMAND] [OPTIONS]",
    .about = "Prints what a command does and all its options, the contents of a policy file, or "
             "the list of passes. The manual pages and completions come from the same tables.",
    .examples = "demi help convert\n"
                "demi help policy\n"
                "demi help convert --man | man -l -\n"
                "source <(demi help --completion bash)\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
