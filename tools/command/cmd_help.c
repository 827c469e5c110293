// SPDX-License-Identifier: Apache-2.0
/* demi help: help on a command, the man page, shell completions. */
#include "commands.h"
#include "console.h"
#include "help.h"
#include "text_distance.h"

static const ArgumentRow arguments[] = {
    {"COMMAND", "The command to explain; without it all are listed."},
    {NULL, NULL},
};

static const OptionRow options[] = {
    {"man", 0, OPTION_ROW_FLAG, NULL, NULL, "Print the manual page, demi(1), as roff source."},
    {"completion", 0, OPTION_ROW_VALUE, "SHELL", "bash zsh fish",
     "Print a completion script for bash, zsh or fish."},
    OPTION_HELP,
    {NULL, 0, OPTION_ROW_FLAG, NULL, NULL, NULL},
};

static bool unknown(const Program *program, const char *name, Err *err) {
    err_set(err, ERR_USAGE, "unknown command '%s'", name);
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < program->commands->count; i++)
        nearest_name_try(&nearest, program->commands->items[i]->name);
    if (nearest.best)
        err_hint(err, "did you mean '%s'?", nearest.best);
    else
        err_hint(err, "'demi --help' lists the commands");
    return false;
}

static bool run(Program *program, const Parsed *parsed, Err *err) {
    const char *name = parsed_argument(parsed, 0), *shell = parsed_value(parsed, "completion");
    if (parsed_flag(parsed, "man")) {
        help_print_man(program->commands, stdout);
    } else if (shell) {
        help_print_completion(program->commands, shell, stdout);
    } else if (name) {
        const Command *command = command_find(program->commands, name);
        if (!command) return unknown(program, name, err);
        help_print_command(command, stdout);
    } else {
        help_print_all(program->commands, stdout);
    }
    return true;
}

const Command command_help = {
    .name = "help",
    .summary = "explain a command; print the manual page or shell completions",
    .usage = "[COMMAND] [OPTIONS]",
    .about = "Prints what a command does and all its options. The manual page and the completions "
             "are made from the same tables.",
    .examples = "demi help convert\n"
                "demi help --man | man -l -\n"
                "source <(demi help --completion bash)\n",
    .arguments = arguments,
    .options = options,
    .run = run,
};
