// SPDX-License-Identifier: Apache-2.0
/* Completion scripts for bash, zsh and fish from the command tables; see help.h. A value with fixed
 * choices completes to them; patterns and operators to what the model on the line has, which
 * 'demi show --names' lists; all others to file names. */
#include <string.h>

#include "help.h"

/* An apostrophe within single quotes. */
#define ZSH_QUOTE  "'\\''"
#define FISH_QUOTE "\\'"

typedef enum ValueKind {
    VALUE_NONE,
    VALUE_CHOICE,
    VALUE_NODE,
    VALUE_OP,
    VALUE_DIR,
    VALUE_FILE
} ValueKind;

static ValueKind value_kind(const OptionRow *row) {
    bool takes = row->kind == OPTION_ROW_VALUE || row->kind == OPTION_ROW_LIST ||
                 row->kind == OPTION_ROW_FILE || row->kind == OPTION_ROW_ATTACHED;
    if (!takes) return VALUE_NONE;
    if (row->choices) return VALUE_CHOICE;
    if (strcmp(row->arg, "PATTERN") == 0 || strcmp(row->arg, "NODE") == 0) return VALUE_NODE;
    if (strcmp(row->arg, "OP") == 0 || strcmp(row->arg, "OP,...") == 0) return VALUE_OP;
    return strncmp(row->arg, "DIR", 3) == 0 ? VALUE_DIR : VALUE_FILE;
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_values(FILE *out, const Command *command, const OptionRow *row) {
    static const char *const sources[] = {
        [VALUE_NONE] = "",        [VALUE_CHOICE] = "",  [VALUE_NODE] = "nodes",
        [VALUE_OP] = "operators", [VALUE_DIR] = "dirs", [VALUE_FILE] = "files"};
    ValueKind kind = value_kind(row);
    if (kind == VALUE_NONE) return;
    fprintf(out, "        '%s --%s'", command->name, row->name);
    if (row->letter) fprintf(out, " | '%s -%c'", command->name, row->letter);
    /* One that takes its value only behind '=' has none in the next word. */
    fputs(row->kind == OPTION_ROW_ATTACHED ? ") [ $attached = 0 ] || " : ") ", out);
    if (kind == VALUE_CHOICE)
        fprintf(out, "from=words values='%s' ;;\n", row->choices);
    else
        fprintf(out, "from=%s ;;\n", sources[kind]);
}

static void bash_options(FILE *out, const Command *command) {
    fprintf(out, "        %s) words='", command->name);
    const char *before = "";
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!option_is_own(row)) continue;
        fprintf(out, "%s--%s", before, row->name);
        if (row->letter) fprintf(out, " -%c", row->letter);
        before = " ";
    }
    fputs("' ;;\n", out);
}

static const char bash_head[] =
    "# bash completion for demi\n"
    "# Names of what is in the first model that the line names.\n"
    "_demi_names() {\n"
    "    local word\n"
    "    for word in \"${line[@]:2}\"; do\n"
    "        word=${word//[\\\\\\\"\\']/}\n"
    "        [ -f \"$word\" ] || continue\n"
    "        \"${COMP_WORDS[0]}\" show \"--names=$1\" -- \"$word\" 2>/dev/null\n"
    "        return\n"
    "    done\n"
    "}\n"
    "# Offers the lines of standard input that begin with the word, as the shell has to read "
    "them:\n"
    "# within the word's quotes or outside, and without what readline takes as words of their "
    "own.\n"
    "# They may come from a model, and none of their text may be run.\n"
    "_demi_offer() {\n"
    "    local quoted='' name shown plain\n"
    "    case $current in\n"
    "        \\\"*) quoted=double current=${current:1} before=${before:1} ;;\n"
    "        \\'*) quoted=single current=${current:1} before=${before:1} ;;\n"
    "    esac\n"
    "    plain=${current//\\\\/}\n"
    "    [ \"$quoted\" != single ] || plain=${current//\\'\\\\\\'\\'/\\'}\n"
    "    while IFS= read -r name; do\n"
    "        [[ $name == \"$plain\"* ]] || continue\n"
    "        case $quoted in\n"
    "            '') printf -v shown '%q' \"$name\" ;;\n"
    "            single) shown=${name//\\'/\\'\\\\\\'\\'} ;;\n"
    "            double)\n"
    "                shown=${name//\\\\/\\\\\\\\} shown=${shown//\\\"/\\\\\\\"}\n"
    "                shown=${shown//\\$/\\\\\\$} shown=${shown//\\`/\\\\\\`}\n"
    "                shown=${shown//!/\\\"\\'!\\'\\\"} ;; # history is read within them, too\n"
    "        esac\n"
    "        case $quoted$shown in # readline closes the quotes, but not behind such a one\n"
    "            single*\\') shown+=\\' ;;\n"
    "            double*\\\") shown+=\\\" ;;\n"
    "        esac\n"
    "        COMPREPLY+=(\"${shown#\"$before\"}\")\n"
    "    done\n"
    "}\n"
    "_demi() {\n"
    "    local line=() rest=${COMP_LINE:0:COMP_POINT} glued i word current option before=''\n"
    "    local words='' values='' from='' attached=0\n"
    "    COMPREPLY=()\n"
    "    # readline takes '=' and ':' as words: put together what has no space between.\n"
    "    for ((i = 0; i <= COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]} glued=1\n"
    "        while [[ $rest == [[:space:]]* ]]; do rest=${rest:1} glued=0; done\n"
    "        rest=${rest#\"$word\"}\n"
    "        if [ $glued = 1 ] && [ $i -gt 0 ]; then line[-1]+=$word; else line+=(\"$word\"); fi\n"
    "    done\n"
    "    current=${line[-1]}\n"
    "    word=${COMP_WORDS[COMP_CWORD]}\n"
    "    [[ $word == *[!=:]* ]] || word=''\n"
    "    before=${current%\"$word\"}\n"
    "    if [ ${#line[@]} -le 2 ]; then\n"
    "        _demi_offer < <(printf '%s\\n' ";

static const char bash_middle[] =
    "    esac\n"
    "    option=${line[-2]}\n"
    "    case $current in\n"
    "        --*=*) option=${current%%=*} current=${current#*=} attached=1\n"
    "            before=${before#\"$option=\"} ;;\n"
    "    esac\n"
    "    case \"${line[1]} $option\" in\n";

static const char bash_tail[] =
    "    esac\n"
    "    if [ -z \"$from\" ] && [[ $current == -* ]] && [ $attached = 0 ]; then\n"
    "        from=words values=$words\n"
    "    elif [ -z \"$from\" ] && [ \"${line[1]}\" = help ]; then\n"
    "        from=words values=$commands\n"
    "    fi\n"
    "    case $from in\n"
    "        words) _demi_offer < <(printf '%s\\n' $values) ;;\n"
    "        nodes | operators) _demi_offer < <(_demi_names \"$from\") ;;\n"
    "        dirs) compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen -d -- \"${current//\\\\/}\") ;;\n"
    "        *) compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen -f -- \"${current//\\\\/}\") ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _demi demi\n";

static void print_bash(const CommandTable *table, FILE *out) {
    fputs(bash_head, out);
    for (size_t i = 0; i < table->count; i++) fprintf(out, "%s ", table->items[i]->name);
    fputs("--help --version -h -V)\n        return\n    fi\n    local commands='", out);
    for (size_t i = 0; i < table->count; i++)
        fprintf(out, "%s%s", i ? " " : "", table->items[i]->name);
    fputs("'\n    case ${line[1]} in\n", out);
    for (size_t i = 0; i < table->count; i++) bash_options(out, table->items[i]);
    fputs(bash_middle, out);
    for (size_t i = 0; i < table->count; i++)
        for (const OptionRow *row = table->items[i]->options; row->name; row++)
            if (option_is_own(row)) bash_values(out, table->items[i], row);
    fputs(bash_tail, out);
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

static void zsh_value(FILE *out, const OptionRow *row) {
    const char *mark =
        row->kind == OPTION_ROW_FILE || row->kind == OPTION_ROW_ATTACHED ? "::" : ":";
    switch (value_kind(row)) {
    case VALUE_NONE: return;
    case VALUE_CHOICE: fprintf(out, "%svalue:(%s)", mark, row->choices); return;
    case VALUE_NODE: fprintf(out, "%snode: _demi_names nodes", mark); return;
    case VALUE_OP: fprintf(out, "%soperator: _demi_names operators", mark); return;
    case VALUE_DIR: fprintf(out, "%sfolder:_files -/", mark); return;
    case VALUE_FILE: fprintf(out, "%sfile:_files", mark); return;
    }
}

static void zsh_option(FILE *out, const OptionRow *row) {
    bool value = value_kind(row) != VALUE_NONE, many = row->kind == OPTION_ROW_LIST;
    const char *sign = row->kind == OPTION_ROW_ATTACHED ? "=-" : value ? "=" : "";
    if (row->letter && many)
        fprintf(out, "            '*'{-%c,--%s%s}'[", row->letter, row->name, sign);
    else if (row->letter)
        fprintf(out, "            '(-%c --%s)'{-%c,--%s%s}'[", row->letter, row->name, row->letter,
                row->name, sign);
    else
        fprintf(out, "            '%s--%s%s[", many ? "*" : "", row->name, sign);
    print_plain(out, row->help, ZSH_QUOTE);
    fputc(']', out);
    zsh_value(out, row);
    fputs("' \\\n", out);
}

static void zsh_command(FILE *out, const CommandTable *table, const Command *command) {
    fprintf(out, "    %s)\n        _arguments -s \\\n", command->name);
    for (const OptionRow *row = command->options; row->name; row++)
        if (option_is_own(row)) zsh_option(out, row);
    if (strcmp(command->name, "help") != 0) {
        fputs("            '*:file:_files' ;;\n", out);
        return;
    }
    fputs("            '1:command:(", out);
    for (size_t i = 0; i < table->count; i++) fprintf(out, "%s ", table->items[i]->name);
    fputs(")' ;;\n", out);
}

static void print_zsh(const CommandTable *table, FILE *out) {
    fputs("#compdef demi\n"
          "# zsh completion for demi\n"
          "# Names of what is in the first model that the line names.\n"
          "_demi_names() {\n"
          "    local word\n"
          "    local -a names\n"
          "    for word in ${(Q)words[2,-1]}; do\n"
          "        [[ -f $word ]] || continue\n"
          "        names=(\"${(@f)$($demi_program show --names=$1 -- $word 2>/dev/null)}\")\n"
          "        compadd -a names\n"
          "        return\n"
          "    done\n"
          "}\n"
          "_demi() {\n"
          "    local demi_program=${(Q)words[1]}\n"
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
    for (size_t i = 0; i < table->count; i++) zsh_command(out, table, table->items[i]);
    fputs("    esac\n"
          "}\n"
          "if [ \"$funcstack[1]\" = _demi ]; then _demi \"$@\"; else compdef _demi demi; fi\n",
          out);
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_value(FILE *out, const OptionRow *row) {
    switch (value_kind(row)) {
    case VALUE_NONE: return;
    case VALUE_CHOICE: fprintf(out, " -x -a '%s'", row->choices); return;
    case VALUE_NODE: fputs(" -x -a '(__demi_names nodes)'", out); return;
    case VALUE_OP: fputs(" -x -a '(__demi_names operators)'", out); return;
    case VALUE_DIR: fputs(" -x -a '(__fish_complete_directories)'", out); return;
    case VALUE_FILE:
        if (row->kind != OPTION_ROW_FILE) fputs(" -r -F", out);
        return;
    }
}

static void fish_command(FILE *out, const Command *command) {
    fprintf(out, "complete -c demi -n __fish_use_subcommand -f -a %s -d '", command->name);
    print_plain(out, command->summary, FISH_QUOTE);
    fputs("'\n", out);
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!option_is_own(row)) continue;
        fprintf(out, "complete -c demi -n '__fish_seen_subcommand_from %s' -l %s", command->name,
                row->name);
        if (row->letter) fprintf(out, " -s %c", row->letter);
        fish_value(out, row);
        fputs(" -d '", out);
        print_plain(out, row->help, FISH_QUOTE);
        fputs("'\n", out);
    }
}

static void print_fish(const CommandTable *table, FILE *out) {
    fputs("# fish completion for demi\n"
          "function __demi_names -d 'Names of what is in the first model that the line names'\n"
          "    set -l words (commandline -opc)\n"
          "    for word in $words[3..-1]\n"
          "        if test -f $word\n"
          "            $words[1] show --names=$argv[1] -- $word 2>/dev/null\n"
          "            return\n"
          "        end\n"
          "    end\n"
          "end\n"
          "complete -c demi -n __fish_use_subcommand -s h -l help -d 'Show help'\n"
          "complete -c demi -n __fish_use_subcommand -s V -l version -d 'Show the version'\n"
          "complete -c demi -n '__fish_seen_subcommand_from help' -f -a '",
          out);
    for (size_t i = 0; i < table->count; i++) fprintf(out, "%s ", table->items[i]->name);
    fputs("'\n", out);
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
