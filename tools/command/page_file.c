// SPDX-License-Identifier: Apache-2.0
/* Pages from templates; see page_file.h. */
#include "page_file.h"

#include <string.h>

#include "page_palette.h"

/* tools/command/page_common.css and page_common.js (embed.cmake). */
extern const unsigned char page_style[], page_common[];
extern const size_t page_style_size, page_common_size;

bool page_until(PageFile *page, const char *mark) {
    size_t length = strlen(mark), end = page->at;
    while (memcmp(page->text + end, mark, length) != 0) end++; /* it is there: cli_test */
    bool ok = outfile_write(page->file, page->text + page->at, end - page->at, page->err);
    page->at = end + length;
    return ok;
}

bool page_begin(PageFile *page) {
    return page_until(page, "@STYLE@") && palette_write_variables(page_write, page) &&
           page_write(page, page_style, page_style_size);
}

bool page_scripts(PageFile *page) {
    return page_until(page, "@COMMON@") && page_write(page, page_common, page_common_size);
}

bool page_end(PageFile *page) {
    return outfile_write(page->file, page->text + page->at, page->size - page->at, page->err);
}

bool page_write(void *user, const void *bytes, size_t size) {
    PageFile *page = user;
    return outfile_write(page->file, bytes, size, page->err);
}

bool page_write_json(void *user, const void *bytes, size_t size) {
    static const char escaped[] = "\\u003c";
    const char *at = bytes, *end = at + size;
    while (at < end) {
        const char *next = memchr(at, '<', (size_t)(end - at));
        size_t plain = (size_t)((next ? next : end) - at);
        if (!page_write(user, at, plain)) return false;
        if (!next) break;
        if (!page_write(user, escaped, sizeof escaped - 1)) return false;
        at = next + 1;
    }
    return true;
}
