// SPDX-License-Identifier: Apache-2.0
/* A report as one HTML page that needs nothing beside it: tools/report_page.html, embedded at build
 * time, with the JSON of the report in the place of a mark. The page's script does the rest. */
#include <string.h>

#include "report_out.h"

/* tools/report_page.html (embed.cmake). */
extern const unsigned char report_page[];
extern const size_t report_page_size;

typedef struct Page {
    OutFile *file;
    Err *err;
} Page;

/* In JSON '<' stands within strings only. Escaped, no name in a model can end the script
 * element. */
static bool write_escaped(void *user, const void *bytes, size_t size) {
    static const char escaped[] = "\\u003c";
    Page *page = user;
    const char *at = bytes, *end = at + size;
    while (at < end) {
        const char *next = memchr(at, '<', (size_t)(end - at));
        size_t plain = (size_t)((next ? next : end) - at);
        if (!outfile_write(page->file, at, plain, page->err)) return false;
        if (!next) break;
        if (!outfile_write(page->file, escaped, sizeof escaped - 1, page->err)) return false;
        at = next + 1;
    }
    return true;
}

static const unsigned char *find_mark(const char *mark) {
    size_t length = strlen(mark);
    for (size_t i = 0; i + length <= report_page_size; i++)
        if (memcmp(report_page + i, mark, length) == 0) return report_page + i;
    return NULL;
}

bool report_write_html(Arena *arena, const DemiReport *report, const ReportTitle *title,
                       OutFile *file, Err *err) {
    static const char mark[] = "@REPORT@";
    const unsigned char *split = find_mark(mark), *rest = split + sizeof mark - 1;
    Page page = {.file = file, .err = err};
    JsonWriter *json = ARENA_NEW(arena, JsonWriter);
    if (!outfile_write(page.file, report_page, (size_t)(split - report_page), err)) return false;
    json_start(json, write_escaped, &page);
    report_write_json(report, title, json);
    return json_finish(json) &&
           outfile_write(page.file, rest, (size_t)(report_page + report_page_size - rest), err);
}
