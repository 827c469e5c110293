// SPDX-License-Identifier: Apache-2.0
/* Parsing of a subcommand's words against its table; see options.h. */
#define _POSIX_C_SOURCE 200809L
#include "options.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "text_distance.h"

/* Other tools are split over which of them they use; capitals are for --warmUp. */
static char plain(char c) {
    return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_name(const char *name, const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!name[i] || plain(name[i]) != plain(word[i])) return false;
    return name[length] == '\0';
}

const Command *command_find(const CommandTable *table, const char *name) {
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->items[i]->name, name) == 0) return table->items[i];
    return NULL;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static const OptionRow *find_row(const Command *command, const char *name, size_t length) {
    for (const OptionRow *row = command->options; row->name; row++)
        if (row->kind != OPTION_ROW_HEADING && same_name(row->name, name, length)) return row;
    return NULL;
}

bool option_is_alias(const OptionRow *row) {
    return row->kind == OPTION_ROW_ALIAS || row->kind == OPTION_ROW_ALIAS_LIST ||
           row->kind == OPTION_ROW_ALIAS_BOOL;
}

bool option_is_own(const OptionRow *row) {
    return !option_is_alias(row) && row->kind != OPTION_ROW_HEADING;
}

/* The row that an alias means; the row itself otherwise. */
static const OptionRow *option_target(const Command *command, const OptionRow *row) {
    if (!option_is_alias(row)) return row;
    const OptionRow *target = find_row(command, row->arg, strlen(row->arg));
    assert(target && option_is_own(target));
    return target;
}

static bool unknown_option(const Command *command, const char *word, Err *err) {
    err_set(err, ERR_USAGE, "unknown option '%s' of 'demi %s'", word, command->name);
    char name[64];
    const char *start = word + strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start, "="), start);
    NearestName nearest = nearest_name_of(name);
    for (const OptionRow *row = command->options; row->name; row++)
        if (row->kind != OPTION_ROW_HEADING) nearest_name_try(&nearest, row->name);
    if (nearest.best)
        err_hint(err, "did you mean '--%s'?", nearest.best);
    else
        err_hint(err, "'demi %s --help' lists the options", command->name);
    return false;
}

typedef struct Parser {
    const Command *command;
    Arena *arena;
    Parsed *parsed;
    char **words;
    int count, at;
} Parser;

enum { NO_CHOICE = UINT_MAX >> 1 };

/* The place of the value among the words. */
static unsigned choice_of(const char *choices, const char *value) {
    const size_t length = strlen(value);
    unsigned at = 0;
    for (const char *p = choices; *p; p += strspn(p, " "), at++) {
        const size_t word = strcspn(p, " ");
        if (word == length && memcmp(p, value, length) == 0) return at;
        p += word;
    }
    return NO_CHOICE;
}

static bool take_value(Parser *parser, const OptionRow *row, const char *value, Err *err) {
    if (row->choices && value[0] && choice_of(row->choices, value) == NO_CHOICE) {
        err_set(err, ERR_USAGE, "bad value of option '--%s'", row->name);
        err_expected(err, "one of: %s", row->choices);
        err_actual(err, "'%s'", value);
        return false;
    }
    size_t index = (size_t)(row - parser->command->options);
    VEC_PUSH(parser->arena, &parser->parsed->values[index], value);
    return true;
}

static bool needs_value(const OptionRow *row, Err *err) {
    err_set(err, ERR_USAGE, "option '--%s' needs a value", row->name);
    err_hint(err, "write --%s %s", row->name, row->arg);
    return false;
}

/* A word that is surely no value of a list: an option, a model, a file. */
static bool ends_list(const char *word) {
    static const char *const endings[] = {".onnx", ".onnxtxt", ".plan", ".pb"};
    size_t length = strlen(word);
    if (word[0] == '-') return true;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (length > ending && strcmp(word + length - ending, endings[i]) == 0) return true;
    }
    return access(word, F_OK) == 0;
}

/* `--nodes_to_exclude a b`: the first was taken. */
static bool take_more(Parser *parser, const OptionRow *target, Err *err) {
    while (parser->at < parser->count && !ends_list(parser->words[parser->at]))
        if (!take_value(parser, target, parser->words[parser->at++], err)) return false;
    return true;
}

/* 1, 0, or -1 where the word is neither. */
static int truth_of(const char *word) {
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};
    for (int i = 0; word && i < 8; i++)
        if (same_name(words[i], word, strlen(word))) return i & 1;
    return -1;
}

/* `--keep_io_types`, `--keep_io_types True`, `--keep_io_types=False`. */
static bool take_truth(Parser *parser, const OptionRow *row, const char *attached, Err *err) {
    const char *next = parser->at < parser->count ? parser->words[parser->at] : NULL;
    int truth = truth_of(attached ? attached : next);
    if (attached && truth < 0) {
        err_set(err, ERR_USAGE, "bad value of option '--%s'", row->name);
        err_expected(err, "True or False");
        err_actual(err, "'%s'", attached);
        return false;
    }
    parser->at += !attached && truth >= 0;
    const char *space = strchr(row->choices, ' ');
    size_t length = (size_t)(space - row->choices);
    const char *value = truth == 0 ? space + 1 : arena_copy(parser->arena, row->choices, length);
    return take_value(parser, option_target(parser->command, row), value, err);
}

/* The option `row` was met, with an attached value or NULL. */
static bool take_option(Parser *parser, const OptionRow *row, const char *attached, Err *err) {
    const OptionRow *target = option_target(parser->command, row);
    if (row->kind == OPTION_ROW_ALIAS_BOOL) return take_truth(parser, row, attached, err);
    if (row->kind == OPTION_ROW_ALIAS && row->choices) { /* it stands for option and value */
        if (!attached) return take_value(parser, target, row->choices, err);
        return err_set(err, ERR_USAGE, "option '--%s' takes no value", row->name);
    }
    const char *next = parser->at < parser->count ? parser->words[parser->at] : NULL;
    switch (target->kind) {
    case OPTION_ROW_FLAG:
        if (attached) return err_set(err, ERR_USAGE, "option '--%s' takes no value", row->name);
        return take_value(parser, target, "", err);
    case OPTION_ROW_ATTACHED: return take_value(parser, target, attached ? attached : "", err);
    case OPTION_ROW_FILE:
        if (attached && !attached[0]) return needs_value(target, err);
        if (attached) return take_value(parser, target, attached, err);
        if (!next || (next[0] == '-' && next[1])) return take_value(parser, target, "-", err);
        break;
    case OPTION_ROW_VALUE:
    case OPTION_ROW_LIST:
        if (attached && !attached[0]) return needs_value(target, err);
        if (attached) return take_value(parser, target, attached, err);
        if (!next || strncmp(next, "--", 2) == 0) return needs_value(target, err);
        break;
    case OPTION_ROW_ALIAS:
    case OPTION_ROW_ALIAS_LIST:
    case OPTION_ROW_ALIAS_BOOL:
    case OPTION_ROW_HEADING: break;
    }
    parser->at++;
    return take_value(parser, target, next, err) &&
           (row->kind != OPTION_ROW_ALIAS_LIST || take_more(parser, target, err));
}

static bool take_word(Parser *parser, const char *word, Err *err) {
    const Command *command = parser->command;
    if (word[1] == '-') {
        size_t length = strcspn(word + 2, "=");
        const OptionRow *row = find_row(command, word + 2, length);
        if (!row) return unknown_option(command, word, err);
        return take_option(parser, row, word[2 + length] ? word + 3 + length : NULL, err);
    }
    for (const OptionRow *row = command->options; row->name; row++) {
        if (row->letter != word[1] || row->kind == OPTION_ROW_HEADING) continue;
        if (strcmp(row->name, "help") == 0) parser->parsed->brief = true;
        const char *attached = word[2] == '=' ? word + 3 : word + 2;
        return take_option(parser, row, word[2] ? attached : NULL, err);
    }
    return unknown_option(command, word, err);
}

static bool too_many(const Parsed *parsed, size_t most, Err *err) {
    err_set(err, ERR_USAGE, "unexpected argument '%s'", parsed->arguments.items[most]);
    err_hint(err, "usage: demi %s %s", parsed->command->name, parsed->command->usage);
    return false;
}

bool options_parse(const Command *command, int count, char **words, Arena *arena, Parsed *parsed,
                   Err *err) {
    size_t rows = 0, most = 0;
    while (command->options[rows].name) rows++;
    while (command->arguments[most].name) most++;
    *parsed = (Parsed){.command = command, .values = ARENA_ARRAY(arena, Words, rows + 1)};
    Parser parser = {command, arena, parsed, words, count, 0};
    bool options = true;
    while (parser.at < count) {
        const char *word = words[parser.at++];
        if (options && strcmp(word, "--") == 0)
            options = false;
        else if (options && word[0] == '-' && word[1]) {
            if (!take_word(&parser, word, err)) return false;
        } else
            VEC_PUSH(arena, &parsed->arguments, word);
    }
    if (parsed_flag(parsed, "help")) return true;
    return parsed->arguments.count <= most || too_many(parsed, most, err);
}

/* ---- reading what was parsed ----------------------------------------------------------------- */

const Words *parsed_list(const Parsed *parsed, const char *name) {
    const OptionRow *row = find_row(parsed->command, name, strlen(name));
    assert(row);
    return &parsed->values[row - parsed->command->options];
}

bool parsed_knows(const Parsed *parsed, const char *name) {
    return find_row(parsed->command, name, strlen(name)) != NULL;
}

const char *parsed_value(const Parsed *parsed, const char *name) {
    const Words *list = parsed_list(parsed, name);
    return list->count ? list->items[list->count - 1] : NULL;
}

bool parsed_flag(const Parsed *parsed, const char *name) {
    return parsed_list(parsed, name)->count > 0;
}

unsigned parsed_choice(const Parsed *parsed, const char *name) {
    const OptionRow *row = find_row(parsed->command, name, strlen(name));
    const char *value = parsed_value(parsed, name);
    assert(row && row->choices);
    return value && *value ? choice_of(row->choices, value) : 0;
}

const char *parsed_argument(const Parsed *parsed, size_t i) {
    return i < parsed->arguments.count ? parsed->arguments.items[i] : NULL;
}
