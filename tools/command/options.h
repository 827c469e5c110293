// SPDX-License-Identifier: Apache-2.0
/* Subcommands and their options as tables.
 *
 * Each subcommand is one Command: its arguments, options, help texts and function. Parsing, --help,
 * the man page and the shell completions are all drawn from these tables, so that they can't
 * disagree. '_' and '-' are equal in option names, and so are capitals and small letters.
 */
#ifndef DEMI_OPTIONS_H
#define DEMI_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "arena.h"
#include "err.h"
#include "vec.h"

typedef enum OptionKind {
    OPTION_ROW_FLAG,     /* no value */
    OPTION_ROW_VALUE,    /* one value; given again, the last one counts */
    OPTION_ROW_LIST,     /* one value each time it is given */
    OPTION_ROW_ATTACHED, /* a value only as --name=VALUE */
    OPTION_ROW_FILE,  /* --json: the next word unless there is none or it is an option; then "-" */
    OPTION_ROW_ALIAS, /* another tool's spelling of the option named by `arg` */
    OPTION_ROW_ALIAS_LIST, /* the same; all words up to the next option or file are values */
    OPTION_ROW_ALIAS_BOOL, /* the same; a word True or False may follow, which chooses the value */
    OPTION_ROW_HEADING     /* no option: `name` is what the rows after it are about */
} OptionKind;

typedef struct OptionRow {
    const char *name; /* without dashes; NULL ends a table */
    char letter;      /* one-letter form, or 0 */
    OptionKind kind;
    const char *arg;     /* what the value is, for help; ALIAS: the option meant */
    const char *choices; /* the accepted values, separated by spaces; NULL: any. ALIAS: the value
                            meant, where the alias takes none; ALIAS_BOOL: what true and what false
                            stand for, separated by a space */
    const char *
        help; /* ALIAS: which tool spells it so; NULL: demi itself in an earlier version, not shown */
} OptionRow;

typedef struct ArgumentRow {
    const char *name; /* NULL ends a table */
    const char *help;
} ArgumentRow;

typedef struct Parsed Parsed;
typedef struct Program Program; /* console.h */

typedef struct Command {
    const char *name, *summary;
    const char *usage;    /* what follows the name on the usage line */
    const char *about;    /* paragraphs for help and man page, separated by empty lines */
    const char *examples; /* lines "COMMAND\n"; a line that begins with '#' explains the next */
    const ArgumentRow *arguments;
    const OptionRow *options;
    const char *common; /* names of those that -h shows, separated by spaces; NULL: all */
    bool shares;        /* mpirun's processes share its work (ranks.h) */
    bool (*run)(Program *program, const Parsed *parsed, Err *err); /* false: err is set */
} Command;

struct Parsed {
    const Command *command;
    Words arguments;
    Words *values; /* of each row of command->options; a flag's are "" */
    bool brief;    /* help was asked for by -h */
};

typedef struct CommandTable {
    const Command *const *items;
    size_t count;
} CommandTable;

/* What an option was called in an earlier version: accepted, not shown. */
#define OPTION_FORMER(former, name)                                                                \
    { former, 0, OPTION_ROW_ALIAS, name, NULL, NULL }

/* Rows that several commands share. */
#define OPTION_HELP                                                                                \
    {                                                                                              \
        "help", 'h', OPTION_ROW_FLAG, NULL, NULL,                                                  \
            "Show this help; -h shows only the most common options."                               \
    }
#define OPTION_HEADING(text)                                                                       \
    { text, 0, OPTION_ROW_HEADING, NULL, NULL, NULL }
#define OPTION_COLOR                                                                               \
    {                                                                                              \
        "color", 0, OPTION_ROW_VALUE, "WHEN", "auto always never",                                 \
            "Colors in text: auto (default; on a terminal, unless NO_COLOR is set), always, or "   \
            "never."                                                                               \
    }
/* Of commands that print a report. */
#define OPTION_QUIET                                                                               \
    {"quiet", 'q', OPTION_ROW_FLAG, NULL, NULL, "Do not print a text report."}, OPTION_COLOR
#define OPTION_DATA_ROOT                                                                           \
    {                                                                                              \
        "data-root", 0, OPTION_ROW_VALUE, "DIR", NULL,                                             \
            "Folder of external weights (default: the model's folder). A model from standard "     \
            "input has no external weights without this option."                                   \
    }
/* Where the weights of a model that is written go. */
#define OPTION_PLACE                                                                               \
    {"one-file",                                                                                   \
     0,                                                                                            \
     OPTION_ROW_FLAG,                                                                              \
     NULL,                                                                                         \
     NULL,                                                                                         \
     "Write all weights into OUT, including external weights of IN; up to 2 GiB."},                \
        {"external", 0,    OPTION_ROW_FLAG,                                                        \
         NULL,       NULL, "Write weights of 1 KiB or more to a file next to OUT."},               \
    {                                                                                              \
        "data-name", 0, OPTION_ROW_VALUE, "NAME", NULL,                                            \
            "Like --external, to a file of this name. By default, the name of the file is OUT's "  \
            "with a hash of the weights, so that no other model's weights are ever overwritten."   \
    }

/* Which inputs with defaults become constants. */
#define OPTION_FREEZE                                                                              \
    {"freeze-inputs",                                                                              \
     0,                                                                                            \
     OPTION_ROW_FLAG,                                                                              \
     NULL,                                                                                         \
     NULL,                                                                                         \
     "Turn inputs with default values into constants. Before IR version 4, demi always does so, "  \
     "since runtimes treat them as constants."},                                                   \
    {                                                                                              \
        "fed", 0, OPTION_ROW_LIST, "NAME", NULL,                                                   \
            "An input with a default value that stays an input because callers provide it; may "   \
            "be repeated."                                                                         \
    }

/* Of commands that run passes. */
#define OPTION_CHECKS                                                                              \
    {"verify-each", 0, OPTION_ROW_FLAG, NULL, NULL, "Check the model after every pass."}, {        \
        "no-check", 0, OPTION_ROW_FLAG, NULL, NULL,                                                \
            "Accept and write models that 'demi check' refuses; check only names and structure."   \
    }

#define OPTION_HARDLINKS                                                                           \
    {                                                                                              \
        "allow-hardlinks", 0, OPTION_ROW_FLAG, NULL, NULL,                                         \
            "Accept external weight files that have more than one hard link."                      \
    }
#define OPTION_LOAD_PASS                                                                           \
    {                                                                                              \
        "load-pass", 0, OPTION_ROW_LIST, "FILE.so", NULL,                                          \
            "Load your own passes from a shared object (see demi_plugin.h); may be repeated."      \
    }
#define OPTION_JSON(help)                                                                          \
    { "json", 0, OPTION_ROW_FILE, "FILE", NULL, help }

/* Parses the words after the subcommand. ERR_USAGE with the nearest name as hint. */
bool options_parse(const Command *command, int count, char **words, Arena *arena, Parsed *parsed,
                   Err *err);

/* The option's values, its last value (NULL where not given), and whether it was given. `name` must
 * be in the command's table. */
const Words *parsed_list(const Parsed *parsed, const char *name);
const char *parsed_value(const Parsed *parsed, const char *name);
bool parsed_flag(const Parsed *parsed, const char *name);
/* The place of its last value among the row's choices; 0 where none was given. */
unsigned parsed_choice(const Parsed *parsed, const char *name);

/* True where it is in the table: for what several commands share. */
bool parsed_knows(const Parsed *parsed, const char *name);

/* The argument i, or NULL. */
const char *parsed_argument(const Parsed *parsed, size_t i);

/* Another tool's spelling; no option of ours, or no option at all. */
bool option_is_alias(const OptionRow *row);

/* An option of ours, for help and completions. */
bool option_is_own(const OptionRow *row);

/* The command of that name, or NULL. */
const Command *command_find(const CommandTable *table, const char *name);

#endif
