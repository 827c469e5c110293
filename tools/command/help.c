// SPDX-License-Identifier: Apache-2.0
/* Help on commands, for the terminal and as manual pages; see help.h. */
#include "help.h"

#include <string.h>

#include "help_page.h"

typedef struct ExitCode {
    const char *code, *means;
} ExitCode;

static const ExitCode exit_codes[] = {
    {"0", "success"},
    {"1", "the model or its data is at fault; diff, check: differences; compare, run: beyond the "
          "tolerance; search: the target is not reached, or not on held-out sets"},
    {"2", "wrong usage: options, missing files, pipelines, patterns without a match, missing input "
          "types"},
    {"3", "the environment: disk, memory, permissions"},
    {"11", "search: ended by the time limit, the evaluation limit, or Ctrl-C; the best result that "
           "reaches the target is written"},
};

enum { EXIT_CODES = sizeof exit_codes / sizeof exit_codes[0] };

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
        if (option_is_alias(row) && row->help) return true;
    return false;
}

/* "--io keep (Model-Optimizer)": what --keep-io-types means. */
static void alias_text(const OptionRow *row, char *text, size_t size) {
    const char *value = row->choices ? row->choices : "";
    snprintf(text, size, "--%s%s%.*s (%s)", row->arg, value[0] ? " " : "", (int)strcspn(value, " "),
             value, row->help);
}

static void print_option(const OptionRow *row, Page *page) {
    char head[128];
    option_head(row, head, sizeof head);
    page_entry(page, head, row->help);
}

static void print_options(const Command *command, Page *page) {
    char head[128], text[256];
    for (const OptionRow *row = command->options; row->name; row++) {
        if (row->kind == OPTION_ROW_HEADING) page_subsection(page, row->name);
        if (option_is_own(row)) print_option(row, page);
    }
    if (!has_aliases(command)) return;
    page_subsection(page, "Names in other tools, also accepted");
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!option_is_alias(row) || !row->help) continue;
        option_head(row, head, sizeof head);
        alias_text(row, text, sizeof text);
        page_entry(page, head, text);
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

static void print_first_sentence(const OptionRow *row, Page *page) {
    char head[128], text[512];
    const char *end = strstr(row->help, ". ");
    int length = end ? (int)(end - row->help) + 1 : (int)strlen(row->help);
    snprintf(text, sizeof text, "%.*s", length, row->help);
    option_head(row, head, sizeof head);
    page_entry(page, head, text);
}

void help_print_brief(const Command *command, FILE *out) {
    Page page = {.out = out};
    fprintf(out, "demi %s: %s\n\nUsage: demi %s %s\n\nOptions:\n", command->name, command->summary,
            command->name, command->usage);
    bool all = true;
    for (const OptionRow *row = command->options; row->name; row++) {
        if (!option_is_own(row)) continue;
        if (is_common(command, row))
            print_first_sentence(row, &page);
        else
            all = false;
    }
    const char *example = command->examples;
    while (*example == '#') example += strcspn(example, "\n") + 1;
    if (*example) fprintf(out, "\nExample:\n  %.*s\n", (int)strcspn(example, "\n"), example);
    fprintf(out, "\n'demi %s --help' %s\n", command->name,
            all ? "has more details" : "explains all options");
}

static void print_arguments(const Command *command, Page *page) {
    if (command->arguments[0].name) page_section(page, "Arguments");
    for (const ArgumentRow *row = command->arguments; row->name; row++)
        page_entry(page, row->name, row->help);
}

void help_print_command(const Command *command, FILE *out) {
    Page page = {.out = out};
    fprintf(out, "demi %s: %s\n\nUsage: demi %s %s\n\n", command->name, command->summary,
            command->name, command->usage);
    page_text(&page, command->about);
    print_arguments(command, &page);
    if (command->options->kind != OPTION_ROW_HEADING) page_section(&page, "Options");
    print_options(command, &page);
    if (!command->examples[0]) return;
    page_section(&page, "Examples");
    page_lines(&page, command->examples);
}

void help_print_all(const CommandTable *table, FILE *out) {
    Page page = {.out = out};
    fputs("demi: convert ONNX models to mixed precision, and run them\n\nUsage: demi COMMAND "
          "[OPTIONS]\n\nStart with:\n  demi convert model.onnx -o model.fp16.onnx\n\nCommands:\n",
          out);
    for (size_t i = 0; i < table->count; i++)
        page_entry(&page, table->items[i]->name, table->items[i]->summary);
    fputs("\n'demi COMMAND -h' shows the most common options of a command, '--help' all of "
          "them.\n'demi help policy' and 'demi help pipeline' explain policies and "
          "pipelines.\n'demi -V' prints the version.\nFILE '-' is standard input or output. Models "
          "are ONNX files, or text (.onnxtxt).\n\nExit codes:\n",
          out);
    for (int i = 0; i < EXIT_CODES; i++)
        fprintf(out, "  %-2s  %s\n", exit_codes[i].code, exit_codes[i].means);
}

/* ---- manual pages ---------------------------------------------------------------------------- */

static void print_exits(Page *page) {
    page_section(page, "Exit status");
    for (int i = 0; i < EXIT_CODES; i++) page_entry(page, exit_codes[i].code, exit_codes[i].means);
}

/* Names of manual pages as they are referred to: ".BR demi (1)," a line. */
static void print_references(const CommandTable *table, const char *self, Page *page) {
    page_section(page, "See also");
    if (strcmp(self, "demi") != 0) fputs(".BR demi (1),\n", page->out);
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->items[i]->name, self) != 0)
            fprintf(page->out, ".BR demi\\-%s (1),\n", table->items[i]->name);
    fputs(".BR demi\\-policy (5),\n.BR demi\\-pipeline (7)\n", page->out);
}

static const char about[] =
    "demi converts ONNX models to mixed precision: float16 or bfloat16, or 8-bit and 4-bit "
    "quantization. It writes valid, portable ONNX models. It also runs models, to measure how far "
    "the result is from the original.\n\nThe file name - means standard input or standard output. "
    "Models are ONNX files, or text as printed by 'demi show --text=full'. Results go to standard "
    "output, messages to standard error.";

void help_print_man(const CommandTable *table, FILE *out) {
    Page page = {.out = out, .roff = true};
    page_title(&page, "demi", 1, "convert ONNX models to mixed precision");
    page_section(&page, "Synopsis");
    fputs(".B demi\n.I COMMAND\n[\\fIOPTIONS\\fR]\n", out);
    page_section(&page, "Description");
    page_text(&page, about);
    page_section(&page, "Commands");
    for (size_t i = 0; i < table->count; i++) {
        const Command *command = table->items[i];
        char head[64], text[256];
        snprintf(head, sizeof head, "demi-%s(1)", command->name);
        snprintf(text, sizeof text, "demi %s %s: %s.", command->name, command->usage,
                 command->summary);
        page_entry(&page, head, text);
    }
    page_section(&page, "Options");
    page_entry(&page, "COMMAND -h", "Show the most common options of a command.");
    page_entry(&page, "COMMAND --help", "Show all of its options, as in its manual page.");
    page_entry(&page, "-V, --version", "Print the version.");
    print_exits(&page);
    print_references(table, "demi", &page);
}

void help_print_command_man(const CommandTable *table, const Command *command, FILE *out) {
    Page page = {.out = out, .roff = true};
    char name[64];
    snprintf(name, sizeof name, "demi-%s", command->name);
    page_title(&page, name, 1, command->summary);
    page_section(&page, "Synopsis");
    fprintf(out, ".B demi %s\n", command->name);
    page_text(&page, command->usage);
    page_section(&page, "Description");
    page_text(&page, command->about);
    print_arguments(command, &page);
    page_section(&page, "Options");
    print_options(command, &page);
    if (command->examples[0]) {
        page_section(&page, "Examples");
        page_lines(&page, command->examples);
    }
    print_exits(&page);
    print_references(table, command->name, &page);
}
