// SPDX-License-Identifier: Apache-2.0
/* A page that is written from a template (embed.cmake): its text up to a mark, something in the mark's
 * place, and so on. */
#ifndef DEMI_PAGE_FILE_H
#define DEMI_PAGE_FILE_H

#include "outputs.h"

typedef struct PageFile {
    OutFile *file;
    Err *err;
    const unsigned char *text; /* [size]: the template */
    size_t size, at;           /* at: what was written of it */
} PageFile;

/* Writes the template up to @STYLE@, and in its place the colors and the styles that all pages have. */
bool page_begin(PageFile *page);
/* Writes the template up to @COMMON@, and in its place what all pages' scripts use. */
bool page_scripts(PageFile *page);
/* Writes the template up to the mark, which it has, and moves behind it. */
bool page_until(PageFile *page, const char *mark);
/* What is left. */
bool page_end(PageFile *page);

/* A DemiWriteFn, `user` being the page, for JSON within a script element: '<' stands within strings only
 * there. Escaped, no name in a model can end the element. */
bool page_write_json(void *page, const void *bytes, size_t size);
/* The same for anything else. */
bool page_write(void *page, const void *bytes, size_t size);

#endif
