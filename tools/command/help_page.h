// SPDX-License-Identifier: Apache-2.0
/* A page of help as a terminal shows it, or as the roff source of a manual page: the same calls
 * make both. A terminal's text is wrapped at 80 columns, roff wraps itself. */
#ifndef DEMI_HELP_PAGE_H
#define DEMI_HELP_PAGE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct Page {
    FILE *out;
    bool roff;
    bool begun; /* of this section, something was printed */
} Page;

/* The first line, or the head of a manual page: .TH and NAME. */
void page_title(Page *page, const char *name, int section, const char *summary);

/* "Words:" in text, capitals in roff; the other stands within one. */
void page_section(Page *page, const char *words);
void page_subsection(Page *page, const char *words);

/* Paragraphs, with an empty line between them. */
void page_text(Page *page, const char *text);

/* What is explained, and how. */
void page_entry(Page *page, const char *head, const char *help);

/* Lines as they are, each ended by '\n'. */
void page_lines(Page *page, const char *lines);

#endif
