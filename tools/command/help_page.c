// SPDX-License-Identifier: Apache-2.0
/* Pages of help, as text and as roff; see help_page.h. */
#include "help_page.h"

#include <string.h>

#include "demi.h"

enum { WIDTH = 80, COLUMN = 26 };

/* ---- text ------------------------------------------------------------------------------------ */

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

static void print_lines(FILE *out, const char *lines) {
    while (*lines) {
        int length = (int)strcspn(lines, "\n");
        fprintf(out, "  %.*s\n", length, lines);
        lines += length;
        if (*lines) lines++;
    }
}

/* ---- roff ------------------------------------------------------------------------------------ */

/* What roff would interpret is escaped: hyphens that are minus signs, quotes that are typed, what
 * begins a request at the beginning of a line. */
static void roff_text(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        bool line_start = i == 0 || text[i - 1] == '\n';
        switch (text[i]) {
        case '\\': fputs("\\e", out); break;
        case '-': fputs("\\-", out); break;
        case '\'': fputs("\\(aq", out); break;
        case '`': fputs("\\(ga", out); break;
        case '^': fputs("\\(ha", out); break;
        case '~': fputs("\\(ti", out); break;
        case '"': fputs("\\(dq", out); break;
        case '|': fputs("|\\:", out); break; /* a line may end there */
        default:
            if (line_start && text[i] == '.') fputs("\\&", out);
            fputc(text[i], out);
        }
    }
}

static void roff_string(FILE *out, const char *text) {
    roff_text(out, text, strlen(text));
}

static void roff_paragraphs(FILE *out, const char *text) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        if (length)
            roff_text(out, text, length);
        else
            fputs(".PP", out);
        fputc('\n', out);
        text += length;
        if (*text) text++;
    }
}

static void roff_capitals(FILE *out, const char *words) {
    for (; *words; words++)
        fputc(*words >= 'a' && *words <= 'z' ? *words - 'a' + 'A' : *words, out);
}

/* ---- both ------------------------------------------------------------------------------------ */

void page_title(Page *page, const char *name, int section, const char *summary) {
    if (!page->roff) {
        fprintf(page->out, "%s: %s\n", name, summary);
        return;
    }
    const char *manual = section == 1   ? "User Commands"
                         : section == 5 ? "File Formats"
                                        : "Overview";
    fputs(".TH ", page->out);
    roff_capitals(page->out, name);
    fprintf(page->out, " %d \"\" \"demi %s\" \"%s\"\n.nh\n.ad l\n.SH NAME\n", section,
            DEMI_VERSION_STRING, manual);
    roff_string(page->out, name);
    fputs(" \\- ", page->out);
    roff_string(page->out, summary);
    fputc('\n', page->out);
}

void page_section(Page *page, const char *words) {
    page->begun = false;
    if (!page->roff) {
        fprintf(page->out, "\n%s:\n", words);
        return;
    }
    fputs(".SH ", page->out);
    roff_capitals(page->out, words);
    fputc('\n', page->out);
}

void page_subsection(Page *page, const char *words) {
    page->begun = false;
    if (!page->roff) {
        fprintf(page->out, "\n%s:\n", words);
        return;
    }
    fputs(".SS ", page->out);
    roff_string(page->out, words);
    fputc('\n', page->out);
}

void page_text(Page *page, const char *text) {
    if (!page->roff) {
        if (page->begun) fputc('\n', page->out);
        print_paragraphs(page->out, text);
    } else {
        if (page->begun) fputs(".PP\n", page->out);
        roff_paragraphs(page->out, text);
    }
    page->begun = true;
}

void page_entry(Page *page, const char *head, const char *help) {
    page->begun = true;
    if (!page->roff) {
        print_entry(page->out, head, help);
        return;
    }
    fputs(".TP\n\\fB", page->out);
    roff_string(page->out, head);
    fputs("\\fR\n", page->out);
    roff_string(page->out, help);
    fputc('\n', page->out);
}

void page_lines(Page *page, const char *lines) {
    if (!page->roff) {
        if (page->begun) fputc('\n', page->out);
        print_lines(page->out, lines);
    } else {
        if (page->begun) fputs(".PP\n", page->out);
        fputs(".nf\n.RS 4\n", page->out);
        roff_string(page->out, lines);
        fputs(".RE\n.fi\n", page->out);
    }
    page->begun = true;
}
