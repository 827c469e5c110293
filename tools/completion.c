// SPDX-License-Identifier: Apache-2.0
/* Completion scripts for bash, zsh and fish from the command tables; see help.h. A value with fixed
 * choices completes to them, any other one to file names. */
#include <string.h>

#include "help.h"

/* An apostrophe within single quotes. */
#define ZSH_QUOTE  "'\\''"
#define FISH_QUOTE "\\'"

static bool is_shown(const OptionRow *row) { return option_is_own(row); }

static bool takes_word(const OptionRow *row) {
    return row->kind == OPTION_ROW_VALUE || row->kind == OPTION_ROW_LIST ||
           row->kind == OPTION_ROW_FILE;
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_command(FILE *out, const Command *command) {
    fprintf(out, "    %s)\n        case \"$previous\" in\n", command->name);
    for (const OptionRow *row = command->options; row->name; row++)
        if (is_shown(row) && takes_word(row) && row->choices)
            fprintf(out,
                    "        --%s) COMPREPLY=($(compgen -W \"%s\" -- \"$current\")); return ;;\n",
                    row->name, row->choices);
    fputs("        esac\n        words=\"", out);
    for (const OptionRow *row = command->options; row->name; row++) {
        if (is_shown(row)) fprintf(out, "%s--%s", row == command->options ? "" : " ", row->name);
        if (is_shown(row) && row->letter) fprintf(out, " -%c", row->letter);
    }
    fputs("\" ;;\n", out);
}

static void print_bash(const CommandTable *table, FILE *out) {
    fputs(
        "# bash completion for demi\n"
        "_demi() {\n"
        "    local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
        "    local words=\"\"\n"
        "    COMPREPLY=()\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W \"",
        out);
    for (size_t i = 0; i < table->count; i++) fprintf(out, "%s ", table->items[i]->name);
    fputs("--help --version\" -- \"$current\"))\n        return\n    fi\n"
          "    case \"${COMP_WORDS[1]}\" in\n",
          out);
    for (size_t i = 0; i < table->count; i++) bash_command(out, table->items[i]);
    fputs("    esac\n"
          "    if [ \"${current#-}\" != \"$current\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -f -- \"$current\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _demi demi\n",
          out);
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Help up to its first full stop, for a string in single quotes: an apostrophe becomes `quote`,
 * what zsh or fish would interpret something alike. */
static void print_plain(FILE *out, const char *text, const char *quote) {
    for (; *text && !(text[0] == '.' && (text[1] == ' ' || !text[1])); text++) {
        switch (*text) {
        case '\'': fputs(quote, out); break;
        case '[': fputc('(', out); break;
        case ']': fputc(')', out); break;
        case ':': fputs(text[1] == ' ' ? " -" : ":", out); break;
        case '"':
        case '\\':
        case '`':
        case '$': break;
        default: fputc(*text, out);
        }
    }
}

static void zsh_command(FILE *out, const Command *command) {
    fprintf(out, "    %s)\n        _arguments -s \\\n", command->name);
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!is_shown(row)) continue;
        const char *repeat = row->kind == OPTION_ROW_LIST ? "*" : "";
        fprintf(out, "            '%s--%s[", repeat, row->name);
        print_plain(out, row->help, ZSH_QUOTE);
        fputc(']', out);
        if (takes_word(row) && row->choices)
            fprintf(out, ":%s:(%s)", row->arg, row->choices);
        else if (takes_word(row))
            fprintf(out, ":%s:_files", row->arg);
        fputs("' \\\n", out);
    }
    fputs("            '*:file:_files' ;;\n", out);
}

static void print_zsh(const CommandTable *table, FILE *out) {
    fputs("#compdef demi\n"
          "# zsh completion for demi\n"
          "_demi() {\n"
          "    if (( CURRENT == 2 )); then\n"
          "        local -a commands=(\n",
          out);
    for (size_t i = 0; i < table->count; i++) {
        fprintf(out, "            '%s:", table->items[i]->name);
        print_plain(out, table->items[i]->summary, ZSH_QUOTE);
        fputs("'\n", out);
    }
    fputs("        )\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $command in\n",
          out);
    for (size_t i = 0; i < table->count; i++) zsh_command(out, table->items[i]);
    fputs("    esac\n"
          "}\n"
          "if [ \"$funcstack[1]\" = _demi ]; then _demi \"$@\"; else compdef _demi demi; fi\n",
          out);
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_command(FILE *out, const Command *command) {
    fprintf(out, "complete -c demi -n __fish_use_subcommand -f -a %s -d '", command->name);
    print_plain(out, command->summary, FISH_QUOTE);
    fputs("'\n", out);
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!is_shown(row)) continue;
        fprintf(out, "complete -c demi -n '__fish_seen_subcommand_from %s' -l %s", command->name,
                row->name);
        if (row->letter) fprintf(out, " -s %c", row->letter);
        if (takes_word(row) && row->choices)
            fprintf(out, " -x -a '%s'", row->choices);
        else if (takes_word(row) && row->kind != OPTION_ROW_FILE)
            fputs(" -r", out);
        fputs(" -d '", out);
        print_plain(out, row->help, FISH_QUOTE);
        fputs("'\n", out);
    }
}

static void print_fish(const CommandTable *table, FILE *out) {
    fputs("# fish completion for demi\n"
          "complete -c demi -n __fish_use_subcommand -l help -d 'Show help'\n"
          "complete -c demi -n __fish_use_subcommand -l version -d 'Show the version'\n",
          out);
    for (size_t i = 0; i < table->count; i++) fish_command(out, table->items[i]);
}

bool help_print_completion(const CommandTable *table, const char *shell, FILE *out) {
    if (strcmp(shell, "bash") == 0)
        print_bash(table, out);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(table, out);
    else if (strcmp(shell, "fish") == 0)
        print_fish(table, out);
    else
        return false;
    return true;
}
