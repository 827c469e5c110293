// SPDX-License-Identifier: Apache-2.0
/* Help texts and the man page; see help.h. Text is wrapped at 80 columns, roff wraps itself. */
#include "help.h"

#include <string.h>

#include "demi.h"

enum { WIDTH = 80, COLUMN = 26 };

static const char *const exit_codes[] = {
    "success",
    "the model or its data is at fault; diff, check: not the same; compare, run: beyond tolerance",
    "wrong usage: options, missing files, pipelines, unmatched patterns, missing input types",
    "the environment: disk, memory, permissions",
};

enum { EXIT_CODES = sizeof exit_codes / sizeof exit_codes[0] };

/* Prints words wrapped so that no line passes WIDTH; the cursor is at `column` and further lines
 * begin at `indent`. */
static void print_wrapped(FILE *out, const char *text, int column, int indent) {
    bool first = true;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
        first = false;
    }
    fputc('\n', out);
}

static void print_entry(FILE *out, const char *head, const char *help) {
    int length = fprintf(out, "  %s", head);
    if (length > COLUMN - 2) {
        fprintf(out, "\n%*s", COLUMN, "");
    } else {
        fprintf(out, "%*s", COLUMN - length, "");
    }
    print_wrapped(out, help, COLUMN, COLUMN);
}

/* "-o, --output FILE". */
static void option_head(const OptionRow *row, char *head, size_t size) {
    char letter[8] = "";
    if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
    switch (row->kind) {
    case OPTION_ROW_FLAG:
    case OPTION_ROW_HEADING:
    case OPTION_ROW_ALIAS:
    case OPTION_ROW_ALIAS_LIST:
    case OPTION_ROW_ALIAS_BOOL: snprintf(head, size, "%s--%s", letter, row->name); break;
    case OPTION_ROW_VALUE:
    case OPTION_ROW_LIST: snprintf(head, size, "%s--%s %s", letter, row->name, row->arg); break;
    case OPTION_ROW_ATTACHED:
        snprintf(head, size, "%s--%s[=%s]", letter, row->name, row->arg);
        break;
    case OPTION_ROW_FILE: snprintf(head, size, "%s--%s [%s]", letter, row->name, row->arg); break;
    }
}

static bool has_aliases(const Command *command) {
    for (const OptionRow *row = command->options; row->name; row++)
        if (option_is_alias(row)) return true;
    return false;
}

/* "--io keep (Model-Optimizer)": what --keep-io-types means. */
static void alias_text(const OptionRow *row, char *text, size_t size) {
    const char *value = row->choices ? row->choices : "";
    snprintf(text, size, "--%s%s%.*s (%s)", row->arg, value[0] ? " " : "",
             (int)strcspn(value, " "), value, row->help);
}

static void print_paragraphs(FILE *out, const char *text) {
    while (*text) {
        int length = (int)strcspn(text, "\n");
        char line[1024];
        snprintf(line, sizeof line, "%.*s", length, text);
        print_wrapped(out, line, 0, 0);
        text += length;
        if (*text) text++;
    }
}

static void print_option(const OptionRow *row, FILE *out) {
    char head[128];
    option_head(row, head, sizeof head);
    print_entry(out, head, row->help);
}

static void print_options(const Command *command, FILE *out) {
    char head[128], text[256];
    if (command->options->kind != OPTION_ROW_HEADING) fputs("\nOptions:\n", out);
    for (const OptionRow *row = command->options; row->name; row++) {
        if (row->kind == OPTION_ROW_HEADING) fprintf(out, "\n%s:\n", row->name);
        if (option_is_own(row)) print_option(row, out);
    }
    if (!has_aliases(command)) return;
    fputs("\nOther tools' spellings, accepted too:\n", out);
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!option_is_alias(row)) continue;
        option_head(row, head, sizeof head);
        alias_text(row, text, sizeof text);
        print_entry(out, head, text);
    }
}

static bool is_common(const Command *command, const OptionRow *row) {
    size_t length = strlen(row->name);
    if (!command->common) return true;
    for (const char *at = command->common; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, row->name, length) == 0) return true;
        at += word;
    }
    return false;
}

static void print_first_sentence(const OptionRow *row, FILE *out) {
    char head[128], text[512];
    const char *end = strstr(row->help, ". ");
    int length = end ? (int)(end - row->help) + 1 : (int)strlen(row->help);
    snprintf(text, sizeof text, "%.*s", length, row->help);
    option_head(row, head, sizeof head);
    print_entry(out, head, text);
}

void help_print_brief(const Command *command, FILE *out) {
    fprintf(out, "demi %s: %s\n\nUsage: demi %s %s\n\nOptions:\n", command->name,
            command->summary, command->name, command->usage);
    bool all = true;
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!option_is_own(row)) continue;
        if (is_common(command, row)) print_first_sentence(row, out);
        else all = false;
    }
    const char *example = command->examples;
    while (*example == '#') example += strcspn(example, "\n") + 1;
    if (*example) fprintf(out, "\nExample:\n  %.*s\n", (int)strcspn(example, "\n"), example);
    fprintf(out, "\n'demi %s --help' %s\n", command->name,
            all ? "explains more" : "lists and explains all options");
}

void help_print_command(const Command *command, FILE *out) {
    fprintf(out, "demi %s: %s\n\nUsage: demi %s %s\n\n", command->name, command->summary,
            command->name, command->usage);
    print_paragraphs(out, command->about);
    if (command->arguments[0].name) fputs("\nArguments:\n", out);
    for (const ArgumentRow *row = command->arguments; row->name; row++)
        print_entry(out, row->name, row->help);
    print_options(command, out);
    if (command->examples[0]) fputs("\nExamples:\n", out);
    for (const char *line = command->examples; *line;) {
        int length = (int)strcspn(line, "\n");
        fprintf(out, "  %.*s\n", length, line);
        line += length;
        if (*line) line++;
    }
}

void help_print_all(const CommandTable *table, FILE *out) {
    fputs("demi: converts ONNX models to float16 or bfloat16 mixed precision\n\n"
          "Usage: demi COMMAND [OPTIONS]\n\n"
          "Start with:\n"
          "  demi convert model.onnx -o model.fp16.onnx\n\n"
          "Commands:\n",
          out);
    for (size_t i = 0; i < table->count; i++)
        print_entry(out, table->items[i]->name, table->items[i]->summary);
    fputs("\n'demi COMMAND -h' shows a command's most used options, '--help' all of them.\n"
          "'demi -V' prints the version.\n"
          "FILE '-' is standard input or output. Models are ONNX files, or text (.onnxtxt).\n\n"
          "Exit codes:\n",
          out);
    for (int i = 0; i < EXIT_CODES; i++) fprintf(out, "  %d  %s\n", i, exit_codes[i]);
}

/* ---- man page -------------------------------------------------------------------------------- */

/* Text with what roff would interpret escaped: backslashes, hyphens that are minus signs, and dots
 * and quotes that begin a line. */
static void roff_text(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        bool line_start = i == 0 || text[i - 1] == '\n';
        if (line_start && (text[i] == '.' || text[i] == '\'')) fputs("\\&", out);
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
}

static void roff_string(FILE *out, const char *text) {
    roff_text(out, text, strlen(text));
}

static void roff_paragraphs(FILE *out, const char *text) {
    for (; *text; text += text[strcspn(text, "\n")] ? 1 : 0) {
        size_t length = strcspn(text, "\n");
        if (length == 0) {
            fputs(".PP", out);
        } else {
            roff_text(out, text, length);
        }
        fputc('\n', out);
        text += length;
    }
}

static void roff_entry(FILE *out, const char *head, const char *help) {
    fputs(".TP\n.B ", out);
    roff_string(out, head);
    fputc('\n', out);
    roff_string(out, help);
    fputc('\n', out);
}

static void roff_examples(FILE *out, const char *examples) {
    if (!examples[0]) return;
    fputs(".PP\nExamples:\n.PP\n.nf\n.RS\n", out);
    roff_string(out, examples);
    fputs(".RE\n.fi\n", out);
}

static void roff_command(FILE *out, const Command *command) {
    fputs(".SS demi ", out);
    roff_string(out, command->name);
    fputs("\n.B demi ", out);
    roff_string(out, command->name);
    fputc(' ', out);
    roff_string(out, command->usage);
    fputs("\n.PP\n", out);
    roff_paragraphs(out, command->about);
    for (const ArgumentRow *row = command->arguments; row->name; row++)
        roff_entry(out, row->name, row->help);
    for (const OptionRow *row = command->options; row->name; row++) {
        char head[128], text[256];
        if (row->kind == OPTION_ROW_HEADING) {
            fputs(".PP\n.I ", out);
            roff_string(out, row->name);
            fputs("\n", out);
            continue;
        }
        option_head(row, head, sizeof head);
        if (option_is_alias(row)) {
            char meant[192];
            alias_text(row, meant, sizeof meant);
            snprintf(text, sizeof text, "The same as %s.", meant);
        }
        roff_entry(out, head, option_is_alias(row) ? text : row->help);
    }
    roff_examples(out, command->examples);
}

void help_print_man(const CommandTable *table, FILE *out) {
    fputs(".TH DEMI 1 \"\" \"demi " DEMI_VERSION_STRING "\" \"User Commands\"\n"
          ".SH NAME\ndemi \\- convert ONNX models to mixed precision\n"
          ".SH SYNOPSIS\n.B demi\n.I COMMAND\n[\\fIOPTIONS\\fR]\n"
          ".SH DESCRIPTION\n"
          "demi reads an ONNX model, rewrites it so that most of it runs in float16 or bfloat16,\n"
          "and writes a valid, portable ONNX model.\n"
          "A file name of \\- means standard input or standard output.\n"
          "Models are ONNX files, or text as printed by\n.BR \"demi show \\-\\-text=full\" .\n"
          "Results go to standard output, messages to standard error.\n"
          ".SH COMMANDS\n",
          out);
    for (size_t i = 0; i < table->count; i++) roff_command(out, table->items[i]);
    fputs(".SH EXIT STATUS\n", out);
    for (int i = 0; i < EXIT_CODES; i++) fprintf(out, ".TP\n.B %d\n%s\n", i, exit_codes[i]);
}
